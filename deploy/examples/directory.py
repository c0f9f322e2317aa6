#!/usr/bin/env python3
"""Keeps a directory of websites in SQLite in step with one topic of a sitescout daemon.

    directory.py --api http://127.0.0.1:9465 --topic sailing --database sailing.sqlite

The entries of the feed and the number of the last one are written in ONE transaction. So this can
be killed at any moment, and so can the daemon and the machine: the database always holds the cursor
of what it contains, and the next request continues from there. Nothing is lost. Entries are
idempotent, because each is the state of a site, not a step.

Copy it and change what happens to a site: only `put` and `remove` need to be replaced. Requires
Python 3.9 or newer, and nothing else. README.md beside this file describes the tables.
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

LIMIT = 1_000  # entries in one response, and so in one transaction
WAIT = 30  # seconds that the daemon delays the response while there are no entries
LONGEST_PAUSE = 60  # seconds between two attempts while the daemon is unavailable
TRIES_ONCE = 5  # retries, some ten seconds, before --once fails

TABLES = """
CREATE TABLE IF NOT EXISTS feed (
    topic TEXT PRIMARY KEY,
    last_seq INTEGER NOT NULL,         -- everything up to this number is in the tables below
    store TEXT NOT NULL                -- the store of the daemon that assigned it
);
CREATE TABLE IF NOT EXISTS sites (     -- the sites on the list, and no others
    host TEXT PRIMARY KEY,
    confidence REAL,
    start INTEGER NOT NULL,            -- 1: a start site
    listed_since TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    reason TEXT NOT NULL,
    alias_of TEXT,                     -- redirects there, but an editor accepted it
    decision TEXT,                     -- 'accept', or NULL: no decision
    is_stale INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS aliases (   -- removed because they redirect elsewhere
    host TEXT PRIMARY KEY,
    alias_of TEXT,
    changed_at TEXT NOT NULL,
    is_stale INTEGER NOT NULL DEFAULT 0
);
-- Nearly always empty, so that finding stale rows costs nothing.
CREATE INDEX IF NOT EXISTS stale_sites ON sites (host) WHERE is_stale;
CREATE INDEX IF NOT EXISTS stale_aliases ON aliases (host) WHERE is_stale;
"""


class Unavailable(Exception):
    """The daemon does not respond, or sends a status that is worth a retry."""

    def __init__(self, why, pause=None):
        super().__init__(why)
        self.pause = pause


class Restored(Exception):
    """The daemon has another store than the one this database follows."""


# === the daemon ===


class Daemon:
    def __init__(self, api, topic, token):
        self.address = f"{api.rstrip('/')}/v1/feed"
        self.topic = topic
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        # Proxies in the environment are for the web, not for a local daemon.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def entries_after(self, seq, store, wait):
        """The next entries of the feed, in order, and the store they belong to.

        Fewer than LIMIT at the end of the feed.
        """
        query = {"topic": self.topic, "after": seq, "wait": wait, "limit": LIMIT}
        if seq > 0:
            query["store"] = store
        request = urllib.request.Request(
            f"{self.address}?{urllib.parse.urlencode(query)}", headers=self.headers
        )
        try:
            with self.opener.open(request, timeout=wait + 60) as response:
                # All of it, before anything is written: the daemon may be killed in the middle.
                body = response.read().decode()
                kind = response.headers.get_content_type()
                store = response.headers.get("Sitescout-Store", "")
        except urllib.error.HTTPError as error:
            raise self.problem(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(getattr(error, "reason", None) or error) from None
        if kind != "application/x-ndjson":
            sys.exit(f"{self.address} is not the feed of a sitescout daemon")
        return [json.loads(line) for line in body.split("\n") if line], store

    def problem(self, error):
        try:
            body = json.loads(error.read())["error"]
            code, message = body["code"], body["message"]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            code, message = "", f"HTTP status {error.code}"
        if code == "other-store":
            return Restored(message)
        if error.code in (408, 429) or error.code >= 500:
            pause = error.headers.get("Retry-After", "")
            return Unavailable(message, int(pause) if pause.isdigit() else None)
        hint = ": --token-file must hold the token of the daemon" if error.code == 401 else ""
        return SystemExit(f"the daemon refused the request: {message}{hint}")


# === the directory ===


def open_directory(path, topic):
    database = sqlite3.connect(path, timeout=60)
    # Readers and the writer do not block each other; commits survive a power cut.
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.executescript(TABLES)
    for (other,) in database.execute("SELECT topic FROM feed WHERE topic <> ?", [topic]):
        sys.exit(f"{path} follows the topic `{other}`: each topic needs a database of its own")
    return database


def position(database):
    """The cursor: the last number, and the store that assigned it."""
    return database.execute("SELECT last_seq, store FROM feed").fetchone() or (0, "")


def put(database, entry):
    """The site is on the list; it may have been there before."""
    # `listed_since` stays: `added` is also sent when an editor accepts a site on the list.
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
    """The site is not on the list; it may never have been."""
    database.execute("DELETE FROM sites WHERE host = :host", entry)
    if entry["change"] == "alias":
        database.execute("INSERT OR REPLACE INTO aliases VALUES (:host, :alias_of, :at, 0)", entry)
    else:
        database.execute("DELETE FROM aliases WHERE host = :host", entry)


def write_entries(database, entries, store):
    """Writes entries and the cursor in one transaction."""
    with database:
        for entry in entries:
            is_listed = entry["change"] in ("added", "changed")
            (put if is_listed else remove)(database, entry)
            row = (entry["topic"], entry["seq"], store)
            database.execute("INSERT OR REPLACE INTO feed VALUES (?, ?, ?)", row)
        if len(entries) < LIMIT:
            # The end of the feed: what a rebuild has not seen is no longer in the feed.
            for table in ("sites", "aliases"):
                database.execute(f"DELETE FROM {table} WHERE is_stale")


def begin_rebuild(database):
    """Marks everything as stale, to be refreshed by the feed or deleted at its end.

    This is committed before the first entry: a rebuild that is killed in the middle is resumed.
    Readers see the old list until then, and never an empty one.
    """
    with database:
        database.execute("UPDATE sites SET is_stale = 1")
        database.execute("UPDATE aliases SET is_stale = 1")
        database.execute("UPDATE feed SET last_seq = 0")


# === following the feed ===


def log(text):
    print(text, flush=True)


def follow(daemon, database, is_once):
    tries = 0
    is_behind = True
    while True:
        try:
            # No long poll while behind, so that the end of the feed is noticed at once.
            seq, store = position(database)
            entries, store = daemon.entries_after(seq, store, 0 if is_behind else WAIT)
        except Unavailable as error:
            if is_once and tries == TRIES_ONCE:
                sys.exit(f"the daemon is unavailable: {error}")
            if tries == 0:
                log(f"the daemon is unavailable, retrying: {error}")
            time.sleep(error.pause or min(2**tries / 4, LONGEST_PAUSE))
            tries = min(tries + 1, 10)
            continue
        except Restored as restored:
            log(f"rebuilding: {restored}")
            begin_rebuild(database)
            is_behind = True
            continue
        if tries > 0:
            log("the daemon is back")
            tries = 0
        write_entries(database, entries, store)
        was_behind, is_behind = is_behind, len(entries) == LIMIT
        if was_behind and not is_behind:
            sites = database.execute("SELECT count(*) FROM sites").fetchone()[0]
            log(f"up to date: {sites} sites at number {position(database)[0]}")
            if is_once:
                return


def main():
    parser = argparse.ArgumentParser(
        description="Keeps a directory in SQLite in step with a topic of a sitescout daemon."
    )
    parser.add_argument("--api", default="http://127.0.0.1:9465", help="[default: %(default)s]")
    parser.add_argument("--topic", required=True, help="the topic to follow")
    parser.add_argument("--database", required=True, help="the SQLite file; created if missing")
    parser.add_argument("--token-file", help="needed if the daemon is not on a loopback address")
    parser.add_argument("--once", action="store_true", help="read to the end of the feed and stop")
    parser.add_argument("--rebuild", action="store_true", help="read the whole feed again")
    options = parser.parse_args()
    if not options.api.startswith(("http://", "https://")):
        parser.error("--api must begin with http:// or https://")
    # SystemExit rolls back an open transaction.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: sys.exit(0))
    try:
        token = options.token_file and pathlib.Path(options.token_file).read_text().split("\n")[0]
        daemon = Daemon(options.api, options.topic, token and token.strip())
        database = open_directory(options.database, options.topic)
        if options.rebuild:
            begin_rebuild(database)
        follow(daemon, database, options.once)
    except sqlite3.Error as error:
        sys.exit(f"{options.database}: {error}")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
