#!/usr/bin/env python3
"""Confidence intervals for `evaluate classifier --topic all`: a bootstrap over the topics.

    benches/intervals.py benches/runs/2026-11-16-xeon-2-cores/README.md

Reads the first table in a file that contains the output of the command, and prints for each classifier
the mean over topics and the 95 % interval, then by how much the first is ahead of the others in F,
topic by topic. Topics are the independent units: sites of one topic share a model.
"""

import random
import re
import statistics
import sys

DRAWS = 20_000
ROW = re.compile(r"\b(internal|homepage|all_pages)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)")
COLUMNS = ("pages", "precision", "recall", "F")


def first_table(lines):
    rows = {}
    for line in lines:
        if line.startswith("mean"):
            return rows
        if found := ROW.search(line):
            values = dict(zip(COLUMNS, map(float, found.groups()[1:])))
            rows.setdefault(found.group(1), []).append(values)
    sys.exit("no table of `evaluate classifier --topic all` in this file")


def interval(values, rng):
    means = sorted(statistics.mean(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    return means[DRAWS // 40], means[-(DRAWS // 40)]


def show(name, values, rng):
    low, high = interval(values, rng)
    print(f"{name:<24} {statistics.mean(values):6.3f} ({low:.3f} to {high:.3f})")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = first_table(file)
    rng = random.Random(1)
    for row, topics in rows.items():
        for column in COLUMNS[1:]:
            show(f"{row} {column}", [topic[column] for topic in topics], rng)
    first, *others = rows
    for other in others:
        pairs = zip(rows[first], rows[other])
        show(f"F {first} - {other}", [one["F"] - two["F"] for one, two in pairs], rng)


if __name__ == "__main__":
    main()
