#!/usr/bin/env python3
"""Reads a WARC file with warcio, an independent reader, and checks every digest.

Prints the number of records of each type; exits with 1 on any problem.
Needs `pip install warcio`. Use: check-warc.py FILE
"""
import collections
import gzip
import sys

from warcio.archiveiterator import ArchiveIterator
from warcio.exceptions import ArchiveLoadFailed

if len(sys.argv) != 2:
    sys.exit(__doc__)
path = sys.argv[1]
counts = collections.Counter()
problems = []
try:
    with open(path, "rb") as file:
        for record in ArchiveIterator(file, check_digests=True):
            counts[record.rec_type] += 1
            while record.raw_stream.read(65536):
                pass
            if record.digest_checker.passed is not True:
                found = record.digest_checker.problems or ["truncated, or without digests"]
                name = record.rec_headers.get_header("WARC-Record-ID")
                problems.append(f"{record.rec_type} {name}: {'; '.join(found)}")
    # warcio does not report a last record that is truncated inside its header.
    end = b""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        while piece := file.read(1 << 20):
            end = (end + piece)[-4:]
    if end != b"\r\n\r\n":
        problems.append("the last record is truncated")
except (ArchiveLoadFailed, EOFError, OSError) as error:
    problems.append(str(error))
print(" ".join(f"{kind}={count}" for kind, count in sorted(counts.items())))
sys.exit("\n".join(problems) or 0)
