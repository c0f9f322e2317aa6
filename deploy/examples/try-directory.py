#!/usr/bin/env python3
"""Tests directory.py against a daemon that crawls a generated web, killing both repeatedly.

    try-directory.py BINARY [--rounds N] [--seed SEED]

Whatever is killed and whenever: at the end the directory must hold exactly what `export` lists.
Nothing here depends on speed; each wait ends when its condition holds.
"""

import argparse
import contextlib
import http.server
import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOPIC = "astronomy"
SITES = 1_000
TOKEN = "a-token-of-this-test"
TIMEOUT = 120  # seconds

# The consumer with few entries per response, so that there are many responses and transactions.
CONSUMER = """
import os, signal, sys
import directory

def mortal(step):
    def taken(*arguments):
        global steps
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1
        step(*arguments)
    return taken

# It kills itself after this many entries; a negative number means never.
steps = int(sys.argv.pop(1))
directory.put, directory.remove = mortal(directory.put), mortal(directory.remove)
directory.LIMIT = 3
directory.main()
"""

# It imports directory.py, without leaving bytecode beside it.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}

checks = {"passed": 0, "failed": 0}


def check(is_well, what, detail=""):
    checks["passed" if is_well else "failed"] += 1
    result = "ok    " if is_well else "FAILED"
    print(f"{result} {what}{f': {detail}' if detail else ''}", flush=True)


def until(holds, what):
    """Waits until `holds` returns something true, and returns that."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise RuntimeError(f"timeout while waiting for {what}")


def free_port():
    """A port below the ephemeral ones, so that it stays free while the daemon is down."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


class Process:
    """A program that is started and killed often, with one log for all its runs."""

    every = []

    def __init__(self, name, command, place):
        self.name, self.command, self.place = name, command, place
        self.log = place / f"{name}.log"
        self.log.touch()
        self.running = None
        Process.every.append(self)

    def start(self):
        with open(self.log, "ab") as log:
            self.running = subprocess.Popen(
                self.command, cwd=self.place, env=ENVIRONMENT, stdout=log, stderr=log
            )

    def end(self, how=signal.SIGKILL):
        """Ends it and returns its exit code."""
        if self.running is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            self.running.send_signal(how)
        code = self.running.wait(TIMEOUT)
        self.running = None
        return code

    def assert_alive(self):
        if self.running is None or self.running.poll() is not None:
            raise RuntimeError(f"the {self.name} has exited:\n{self.output()[-2000:]}")

    def output(self):
        return self.log.read_text(errors="replace")


class Trial:
    def __init__(self, binary, place, rounds, seed):
        self.binary, self.place, self.rounds = binary, place, rounds
        self.rng = random.Random(seed)
        self.state = place / "state"
        self.database = place / "directory.sqlite"
        self.api = f"http://127.0.0.1:{free_port()}"
        self.web = Process(
            "web",
            [binary, "serve-web", "--sites", str(SITES), "--port", "0", "--latency", "20ms"],
            place,
        )
        self.daemon = Process("daemon", [binary, "run", "--config", "daemon.toml"], place)
        self.consumer = Process(
            "consumer", [sys.executable, "-c", CONSUMER, "-1", *self.arguments()], place
        )
        self.decided = {}  # what the API has confirmed
        self.blocked = set()

    def arguments(self, topic=TOPIC, database=None, api=None):
        database = str(database or self.database)
        return ["--api", api or self.api, "--topic", topic, "--database", database]

    def tool(self, *arguments):
        command = [self.binary, *arguments]
        done = subprocess.run(command, cwd=self.place, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stderr[-2000:]}")
        return done.stdout

    def once(self, *arguments):
        """Runs the unmodified consumer to the end of the feed."""
        arguments = arguments or self.arguments()
        command = [sys.executable, HERE / "directory.py", *arguments, "--once"]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )

    def die_within(self, database, steps):
        """Runs a consumer that is killed in the middle of a transaction, if there are entries."""
        mortal = [sys.executable, "-c", CONSUMER, str(steps), *self.arguments(database=database)]
        done = subprocess.run(
            [*mortal, "--once"],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode not in (0, -signal.SIGKILL):
            raise RuntimeError(f"a consumer that was to be killed failed: {done.stderr}")
        return done.returncode == -signal.SIGKILL

    # --- web, model and settings ---

    def prepare(self):
        truth = self.tool("serve-web", "--sites", str(SITES), "--truth")
        truth = [line.split("\t") for line in truth.splitlines()]
        wanted = [site for site in truth if site[1] == TOPIC]
        others = [site for site in truth if site[1] != TOPIC]
        labels = "".join("\t".join(site) + "\n" for site in wanted[:12] + others[:40])
        (self.place / "labels.tsv").write_text(labels)
        (self.place / "token").write_text(TOKEN + "\n")
        web = f"generated:{SITES},1"
        self.tool("train", TOPIC, "--web", web, "--labels", "labels.tsv", "--out", "models")
        starts = json.dumps([host for host, _ in wanted[:2]])
        topic = self.place / "models" / TOPIC / "topic.toml"
        topic.write_text(f'name = "{TOPIC}"\nstart_sites = {starts}\n')
        self.web.start()
        until(lambda: self.web.assert_alive() or "\nresolve" in self.web.output(), "the web")
        self.configure(self.state)

    def configure(self, state):
        fetch = self.web.output()
        fetch = fetch[fetch.index("[fetch]") :]
        (self.place / "daemon.toml").write_text(
            f"""{fetch}
[fetch.politeness]
# Slow enough to be still crawling at the last kill.
pause = "100 ms"
[external]
crawlers = 4
drain = "5 s"
[service]
topics = ["{TOPIC}"]
models = "models"
state = "{state}"
listen = "127.0.0.1:0"
low_disk = 0
[api]
listen = "{self.api.removeprefix('http://')}"
token_file = "token"
"""
        )

    # --- the API ---

    def request(self, method, path, body=None):
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.api + path, sent, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=TIMEOUT) as response:
            text = response.read().decode()
        if response.headers.get_content_type() == "application/x-ndjson":
            return [json.loads(line) for line in text.split("\n") if line]
        return json.loads(text) if text else None

    def topic(self):
        """The topic as the daemon reports it, once it does."""

        def opened():
            self.daemon.assert_alive()
            with contextlib.suppress(OSError):
                # While it is starting there is nothing to decide on.
                topic = self.request("GET", f"/v1/topics/{TOPIC}")
                return topic if topic["state"] != "starting" else None

        return until(opened, "the daemon")

    def pause(self):
        self.topic()
        self.request("POST", f"/v1/topics/{TOPIC}/pause")
        until(lambda: self.topic()["state"] == "idle", "the crawl to become idle")

    def resume(self):
        self.request("POST", f"/v1/topics/{TOPIC}/resume")

    def sites(self, verdict):
        """Hosts without a decision."""
        path = f"/v1/sites?topic={TOPIC}&verdict={verdict}&decision=none&limit=1000"
        sites = self.request("GET", path)["sites"]
        return [site["host"] for site in sites if site["host"] not in self.blocked]

    def decide(self, host, decision):
        path = f"/v1/topics/{TOPIC}/sites/{host}/decision"
        if decision is None:
            self.request("DELETE", path)
            del self.decided[host]
        else:
            self.request("PUT", path, {"decision": decision, "note": "of the test"})
            self.decided[host] = decision

    def block(self, host, is_blocked=True):
        path = f"/v1/blocks/{host}"
        if is_blocked:
            self.request("PUT", path, {"note": "of the test"})
            self.blocked.add(host)
        else:
            self.request("DELETE", path)
            self.blocked.remove(host)

    def edit(self):
        """A random action of an editor or operator, of those possible now."""
        relevant, irrelevant = self.sites("relevant"), self.sites("irrelevant")
        actions = []
        # Keeps most of the list, so that there is one.
        if len(relevant) > 6:
            actions.append(lambda: self.decide(self.rng.choice(relevant), "reject"))
            actions.append(lambda: self.block(self.rng.choice(relevant)))
        if irrelevant:
            actions.append(lambda: self.decide(self.rng.choice(irrelevant), "accept"))
        if len(self.decided) > 2:
            actions.append(lambda: self.decide(self.rng.choice(sorted(self.decided)), None))
        if len(self.blocked) > 1:
            actions.append(lambda: self.block(self.rng.choice(sorted(self.blocked)), False))
        if actions:
            self.rng.choice(actions)()

    # --- what the directory holds ---

    def rows(self, query, database=None):
        path = database or self.database
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as opened:
            return opened.execute(query).fetchall()

    def hosts(self):
        return {host for (host,) in self.rows("SELECT host FROM sites")}

    def listed_host(self):
        """A site that the model put on the list, and that is in the directory."""
        held = self.hosts()
        return next((host for host in self.sites("relevant") if host in held), None)

    def other_host(self):
        return next(iter(self.sites("irrelevant")), None)

    def last_seq(self):
        return self.rows("SELECT last_seq FROM feed")[0][0]

    def compare(self, state, when):
        """Compares the directory with the exported list; the daemon must be down."""
        export = ["export", "--topic", TOPIC, "--state", state, "--format"]
        listed = self.tool(*export, "txt").split()
        exported = [json.loads(line) for line in self.tool(*export, "jsonl").splitlines()]
        held = self.hosts()
        missing, surplus = sorted(set(listed) - held), sorted(held - set(listed))
        detail = f"missing {missing}, surplus {surplus}" if missing or surplus else ""
        check(held == set(listed), f"{when} the directory holds the {len(listed)} sites", detail)
        sites = set(self.rows("SELECT host, confidence, start, decision FROM sites"))
        fields = ("host", "confidence", "start", "decision")
        expected = {tuple(site[field] for field in fields) for site in exported}
        detail = str(sorted(expected ^ sites, key=str)[:4]) if sites != expected else ""
        check(sites == expected, f"{when} confidences and decisions agree", detail)
        return set(listed)

    def await_output(self, word, after=0):
        """Waits until the consumer prints something."""

        def is_said():
            self.consumer.assert_alive()
            return word in self.consumer.output()[after:]

        until(is_said, f"the consumer to print `{word}`")

    # --- the parts ---

    def live(self):
        """Changes arrive, and the consumer survives one kill of the daemon."""
        self.daemon.start()
        self.topic()
        self.consumer.start()
        self.await_output("up to date")
        until(lambda: len(self.hosts()) >= 6, "the first sites")
        check(True, "sites arrive while they are found")

        host = until(self.listed_host, "a site")
        self.decide(host, "reject")
        until(lambda: host not in self.hosts(), "a rejected site to go")
        check(True, "a rejected site leaves the directory")
        self.decide(host, None)
        until(lambda: host in self.hosts(), "a site to come back")
        check(True, "and comes back when that is withdrawn")
        host = until(self.other_host, "an irrelevant site")
        self.decide(host, "accept")
        until(lambda: host in self.hosts(), "an accepted site")
        check(True, "an accepted site enters it")
        host = until(self.listed_host, "a site")
        self.block(host)
        until(lambda: host not in self.hosts(), "a blocked site to go")
        check(True, "a blocked site leaves it")

        self.daemon.end()
        self.await_output("the daemon is unavailable")
        self.daemon.start()
        self.await_output("the daemon is back")
        output = self.consumer.output()
        is_brief = output.count("is unavailable") == output.count("is back") == 1
        check(is_brief, "it reports once that the daemon is unavailable, and once that it is back")

    def kill_for(self, rounds):
        for _ in range(rounds):
            time.sleep(self.rng.uniform(0.0, 1.2))
            self.daemon.assert_alive()
            self.consumer.assert_alive()
            victims = self.rng.choice(
                [[self.daemon], [self.consumer], [self.daemon, self.consumer]]
            )
            for victim in victims:
                victim.end()
            time.sleep(self.rng.choice([0.0, 0.1, 0.8]))
            self.rng.shuffle(victims)
            for victim in victims:
                victim.start()
            if self.rng.random() < 0.3:
                # While it starts.
                time.sleep(self.rng.uniform(0.0, 0.4))
                victims[0].end()
                victims[0].start()
            self.topic()
            for _ in range(self.rng.randrange(4)):
                self.edit()

    def back_up(self):
        """Of a paused topic, so that a daemon does not change the restored copy."""
        self.pause()
        code = self.daemon.end(signal.SIGTERM)
        self.tool("export", "--everything", "--state", self.state, "--out", "backup.jsonl")
        self.daemon.start()
        self.topic()
        self.resume()
        check(code == 0, "a backup is made in between")

    def settle(self):
        """All that was found and decided is in the directory, and nothing else."""
        # So that the list differs from the backup, whatever was chosen at random.
        self.decide(until(self.other_host, "an irrelevant site"), "accept")
        until(lambda: self.topic()["finds"] >= 16, "enough sites")
        self.pause()
        code = self.consumer.end(signal.SIGTERM)
        check(code == 0, "SIGTERM ends the consumer", "" if code == 0 else str(code))
        done = self.once()
        check(done.returncode == 0, "--once reads to the end", done.stderr)
        feed = self.request("GET", f"/v1/feed?topic={TOPIC}&limit=10000")
        changes = [entry["change"] for entry in feed]
        other = self.place / "mortal.sqlite"
        deaths = sum(self.die_within(other, steps) for steps in range(12))
        self.once(*self.arguments(database=other))
        sites = "SELECT host, confidence, changed_at, reason, decision FROM sites ORDER BY host"
        is_same = self.rows(sites) == self.rows(sites, other)
        check(is_same and deaths >= 4, f"killed within {deaths} transactions, it holds the same")
        with contextlib.closing(sqlite3.connect(other)) as opened, opened:
            opened.execute("UPDATE sites SET host = 'x' || host WHERE decision IS NULL")
        self.once(*self.arguments(database=other), "--rebuild")
        is_same = self.rows(sites) == self.rows(sites, other)
        check(is_same, "--rebuild repairs a wrong directory")
        code = self.daemon.end(signal.SIGTERM)
        detail = "" if code == 0 else self.daemon.output()[-2000:]
        check(code == 0, "SIGTERM ends the daemon", detail)
        listed = self.compare(self.state, "after all the killing")
        accepted = {host for host, decision in self.decided.items() if decision == "accept"}
        rejected = set(self.decided) - accepted
        is_kept = accepted - self.blocked <= listed and not listed & (rejected | self.blocked)
        check(is_kept, "no decision and no block was lost")
        sizes = f"{len(listed)} sites, {changes.count('dropped')} dropped, number {self.last_seq()}"
        is_large = len(listed) >= 10 and changes.count("dropped") >= 1
        check(is_large and self.last_seq() == feed[-1]["seq"] > 0, sizes)

    def restore(self):
        before, number = self.hosts(), self.last_seq()
        restored = self.place / "restored"
        self.tool("import", "backup.jsonl", "--state", restored)
        self.configure(restored)
        before_rebuild = len(self.consumer.output())
        self.daemon.start()
        is_paused = self.topic()["reason"] == "paused"
        last = self.request("GET", "/v1/status")["last_seq"]
        check(is_paused and last < number, f"a daemon on the backup has numbers up to {last}")
        # In the middle of a rebuild: the first time before any entry is written.
        deaths = [self.die_within(self.database, steps) for steps in (0, 5)]
        is_going_on = all(deaths) and 0 < self.last_seq() <= last
        check(is_going_on, "a consumer that is killed during a rebuild resumes it")
        # Readers must not see half a list meanwhile.
        feed = self.request("GET", f"/v1/feed?topic={TOPIC}&limit=10000")
        dropped = {entry["host"] for entry in feed if entry["change"] in ("dropped", "alias")}
        check(before - dropped <= self.hosts(), "and has removed only what the feed dropped")
        self.consumer.start()
        self.await_output("up to date", before_rebuild)
        held = self.hosts()
        self.resume()
        host = until(self.other_host, "an irrelevant site")
        self.decide(host, "accept")
        until(lambda: host in self.hosts(), "changes of the restored daemon")
        check(held != before, "it ends with another list, and continues to follow")
        self.pause()
        self.consumer.end()
        done = self.once()
        check(done.returncode == 0, "--once reads to the end again", done.stderr)
        check(self.daemon.end(signal.SIGTERM) == 0, "the daemon ends")
        self.compare(restored, "after the restore")

    def complain(self):
        """Errors of the consumer. The daemon runs."""

        def refused(what, part, *arguments):
            done = self.once(*arguments)
            is_clear = done.returncode == 1 and part in done.stderr
            is_clear = is_clear and "Traceback" not in done.stderr
            check(is_clear, f"{what} is reported", "" if is_clear else f"it printed {done.stderr!r}")

        fresh = self.place / "fresh.sqlite"
        refused("an unknown topic", "no topic `knitting`", *self.arguments("knitting", fresh))
        refused("a database of another topic", f"`{TOPIC}`", *self.arguments("knitting"))
        text = self.place / "labels.tsv"
        refused("a file that is no database", "not a database", *self.arguments(TOPIC, text))
        nowhere = self.place / "nowhere" / "at.all"
        refused("a directory that is missing", "unable to open", *self.arguments(TOPIC, nowhere))
        with mock([401]) as address:
            refused("a wrong token", "--token-file", *self.arguments(TOPIC, fresh, address))
        with mock(["page"]) as address:
            refused("another server", "is not the feed", *self.arguments(TOPIC, fresh, address))
        with mock([503, 429, 200]) as address:
            began = time.monotonic()
            done = self.once(*self.arguments(TOPIC, fresh, address))
            took = time.monotonic() - began
            is_polite = done.returncode == 0 and took >= 2
            check(is_polite, "Retry-After is respected", done.stderr)


@contextlib.contextmanager
def mock(answers):
    """A server that sends these responses, one after the other."""
    answers = iter(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status = next(answers)
            is_page = status == "page"
            self.send_response(200 if is_page else status)
            if status == 429:
                self.send_header("Retry-After", "2")
            self.send_header("Content-Type", "text/html" if is_page else "application/x-ndjson")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def main():
    parser = argparse.ArgumentParser(description="Tests directory.py against a daemon.")
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=12, help="how often something is killed")
    parser.add_argument("--seed", type=int, default=1, help="random seed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as place:
        trial = Trial(options.binary.resolve(), pathlib.Path(place), options.rounds, options.seed)
        try:
            trial.prepare()
            trial.live()
            trial.kill_for(options.rounds // 2)
            trial.back_up()
            trial.kill_for(options.rounds - options.rounds // 2)
            check(True, f"killed {options.rounds} times, they continue")
            trial.complain()
            trial.settle()
            trial.restore()
            check("Traceback" not in trial.consumer.output(), "no tracebacks")
        except Exception as error:  # processes are always killed and logs shown
            check(False, "the test completes", f"{type(error).__name__}: {error}")
        finally:
            for process in Process.every:
                process.end()
        if checks["failed"]:
            for process in Process.every:
                print(f"=== {process.name}\n{process.output()[-3000:]}", file=sys.stderr)
    print(f"{checks['passed']} passed, {checks['failed']} failed")
    sys.exit(1 if checks["failed"] else 0)


if __name__ == "__main__":
    main()
