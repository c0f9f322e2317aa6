#!/usr/bin/env python3
"""Keeps a directory of websites in SQLite in step with one topic of a sitescout daemon.

    directory.py --api http://127.0.0.1:9465 --topic sailing --database sailing.sqlite

The whole trick: what the feed tells and the number of the last entry told are written in ONE
transaction. So this can be killed at any moment, and so can the daemon, and the machine: the
database always says how far it has got, and the next request goes on from there. Nothing is lost.
What comes twice does no harm, because each entry says how a site stands, and not what to do.

Copy it and change what becomes of a site: `put` and `remove` are all there is to replace. Python
3.9 or newer, and nothing else. README.md beside this file describes the tables.
"""

import argparse
import http.client
import json
import pathlib
import signal
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

LIMIT = 1_000  # entries in one answer, and so in one transaction
WAIT = 30  # seconds that the daemon holds the line while there is nothing to tell
LONGEST_PAUSE = 60  # seconds between two tries while the daemon is away
TRIES_ONCE = 5  # after so many, some ten seconds, --once gives up

TABLES = """
CREATE TABLE IF NOT EXISTS feed (
    topic TEXT PRIMARY KEY,
    last_seq INTEGER NOT NULL,         -- everything up to this number is in the tables below
    store TEXT NOT NULL                -- the store of the daemon that gave it
);
CREATE TABLE IF NOT EXISTS sites (     -- those on the list, and no others
    host TEXT PRIMARY KEY,
    confidence REAL,
    start INTEGER NOT NULL,            -- 1: the crawl began with it
    listed_since TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    reason TEXT NOT NULL,
    alias_of TEXT,                     -- leads there, and an editor accepts it all the same
    decision TEXT,                     -- 'accept', or NULL: no editor has spoken
    is_stale INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS aliases (   -- those that left the list because they lead elsewhere
    host TEXT PRIMARY KEY,
    alias_of TEXT,
    changed_at TEXT NOT NULL,
    is_stale INTEGER NOT NULL DEFAULT 0
);
-- Nearly always empty, so that looking for what is stale costs nothing.
CREATE INDEX IF NOT EXISTS stale_sites ON sites (host) WHERE is_stale;
CREATE INDEX IF NOT EXISTS stale_aliases ON aliases (host) WHERE is_stale;
"""


class Away(Exception):
    """The daemon does not answer, or asks us to come back later."""

    def __init__(self, why, pause=None):
        super().__init__(why)
        self.pause = pause


class Restored(Exception):
    """The store of the daemon is another one than that which we followed."""


# === the daemon ===


class Daemon:
    def __init__(self, api, topic, token):
        self.address = f"{api.rstrip('/')}/v1/feed"
        self.topic = topic
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        # The daemon is a neighbour; proxies in the environment are for the web.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def entries_after(self, seq, store, wait):
        """The next entries of the feed, in order, and the store that they are of.

        Fewer than LIMIT if there are no more by now.
        """
        asked = {"topic": self.topic, "after": seq, "wait": wait, "limit": LIMIT}
        if seq > 0:
            asked["store"] = store
        request = urllib.request.Request(
            f"{self.address}?{urllib.parse.urlencode(asked)}", headers=self.headers
        )
        try:
            with self.opener.open(request, timeout=wait + 60) as answer:
                # All of it, before anything is written: a daemon may die in the middle.
                body = answer.read().decode()
                kind = answer.headers.get_content_type()
                store = answer.headers.get("Sitescout-Store", "")
        except urllib.error.HTTPError as error:
            raise self.problem(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise Away(getattr(error, "reason", None) or error) from None
        if kind != "application/x-ndjson":
            sys.exit(f"{self.address} does not answer as a daemon of sitescout does")
        return [json.loads(line) for line in body.split("\n") if line], store

    def problem(self, error):
        try:
            told = json.loads(error.read())["error"]
            code, message = told["code"], told["message"]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            code, message = "", f"HTTP status {error.code}"
        if code == "other-store":
            return Restored(message)
        if error.code in (408, 429) or error.code >= 500:
            pause = error.headers.get("Retry-After", "")
            return Away(message, int(pause) if pause.isdigit() else None)
        hint = ": --token-file must hold the token of the daemon" if error.code == 401 else ""
        return SystemExit(f"the daemon refuses: {message}{hint}")


# === the directory ===


def open_directory(path, topic):
    database = sqlite3.connect(path, timeout=60)
    # Readers do not wait for us, nor we for them; what is committed survives a power cut.
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.executescript(TABLES)
    for (other,) in database.execute("SELECT topic FROM feed WHERE topic <> ?", [topic]):
        sys.exit(f"{path} follows the topic `{other}`: each topic needs a database of its own")
    return database


def position(database):
    """How far we are: the last number, and the store that gave it."""
    return database.execute("SELECT last_seq, store FROM feed").fetchone() or (0, "")


def put(database, entry):
    """The site is on the list. Whether it was there before does not matter."""
    # `listed_since` stays: `added` is also told when an editor vouches for a site on the list.
    database.execute(
        """INSERT INTO sites (host, confidence, start, listed_since, changed_at, reason, alias_of,
                              decision)
           VALUES (:host, :confidence, :start, :at, :at, :reason, :alias_of, :decision)
           ON CONFLICT (host) DO UPDATE SET
               confidence = excluded.confidence, start = excluded.start,
               changed_at = excluded.changed_at, reason = excluded.reason,
               alias_of = excluded.alias_of, decision = excluded.decision, is_stale = 0""",
        entry,
    )
    database.execute("DELETE FROM aliases WHERE host = :host", entry)


def remove(database, entry):
    """The site is not on the list. Whether it ever was does not matter."""
    database.execute("DELETE FROM sites WHERE host = :host", entry)
    if entry["change"] == "alias":
        database.execute("INSERT OR REPLACE INTO aliases VALUES (:host, :alias_of, :at, 0)", entry)
    else:
        database.execute("DELETE FROM aliases WHERE host = :host", entry)


def take_in(database, entries, store):
    """Writes entries, and how far we are with them, together or not at all."""
    with database:
        for entry in entries:
            is_listed = entry["change"] in ("added", "changed")
            (put if is_listed else remove)(database, entry)
            row = (entry["topic"], entry["seq"], store)
            database.execute("INSERT OR REPLACE INTO feed VALUES (?, ?, ?)", row)
        if len(entries) < LIMIT:
            # The end of the feed: what a rebuild has not come across is in the feed no more.
            for table in ("sites", "aliases"):
                database.execute(f"DELETE FROM {table} WHERE is_stale")


def begin_again(database):
    """Marks everything, to be renewed by the feed from its beginning or swept at its end.

    This is on the disk before the first entry is: whoever is killed in the middle of a rebuild goes
    on with it. Readers see the old list until then, and never an empty one.
    """
    with database:
        database.execute("UPDATE sites SET is_stale = 1")
        database.execute("UPDATE aliases SET is_stale = 1")
        database.execute("UPDATE feed SET last_seq = 0")


# === the two together ===


def say(text):
    print(text, flush=True)


def follow(daemon, database, is_once):
    tries = 0
    is_behind = True
    while True:
        try:
            # Who is behind does not wait, so that whoever has nothing to read knows it at once.
            seq, store = position(database)
            entries, store = daemon.entries_after(seq, store, 0 if is_behind else WAIT)
        except Away as away:
            if is_once and tries == TRIES_ONCE:
                sys.exit(f"the daemon is away: {away}")
            if tries == 0:
                say(f"the daemon is away, trying again: {away}")
            time.sleep(away.pause or min(2**tries / 4, LONGEST_PAUSE))
            tries = min(tries + 1, 10)
            continue
        except Restored as restored:
            say(f"building anew: {restored}")
            begin_again(database)
            is_behind = True
            continue
        if tries > 0:
            say("the daemon is back")
            tries = 0
        take_in(database, entries, store)
        was_behind, is_behind = is_behind, len(entries) == LIMIT
        if was_behind and not is_behind:
            sites = database.execute("SELECT count(*) FROM sites").fetchone()[0]
            say(f"up to date: {sites} sites at number {position(database)[0]}")
            if is_once:
                return


def main():
    parser = argparse.ArgumentParser(
        description="Keeps a directory in SQLite in step with a topic of a sitescout daemon."
    )
    parser.add_argument("--api", default="http://127.0.0.1:9465", help="[default: %(default)s]")
    parser.add_argument("--topic", required=True, help="the topic to follow")
    parser.add_argument("--database", required=True, help="the SQLite file; made if missing")
    parser.add_argument("--token-file", help="needed if the daemon is not on a loopback address")
    parser.add_argument("--once", action="store_true", help="read to the end of the feed and stop")
    parser.add_argument("--rebuild", action="store_true", help="begin again with the whole feed")
    asked = parser.parse_args()
    if not asked.api.startswith(("http://", "https://")):
        parser.error("--api must begin with http:// or https://")
    # An exception: a transaction under way is rolled back.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: sys.exit(0))
    try:
        token = asked.token_file and pathlib.Path(asked.token_file).read_text().split("\n")[0]
        daemon = Daemon(asked.api, asked.topic, token and token.strip())
        database = open_directory(asked.database, asked.topic)
        if asked.rebuild:
            begin_again(database)
        follow(daemon, database, asked.once)
    except sqlite3.Error as error:
        sys.exit(f"{asked.database}: {error}")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
