#!/usr/bin/env python3
"""Confidence intervals for `evaluate classifier --topic all`: a bootstrap over the topics.

    benches/intervals.py benches/runs/2026-11-16-xeon-2-cores/README.md

    benches/intervals.py BEFORE AFTER

Reads the first table in a file that contains the output of the command, and prints for each classifier
the mean over topics and the 95 % interval, then by how much the first is ahead of the others in F,
topic by topic. Of two files with the output of `evaluate classifier --open-world`, their tables with the
same numbers of examples are compared, topic by topic. Topics are the independent units: sites of one
topic share a model.
"""

import random
import re
import statistics
import sys

DRAWS = 20_000
ROW = re.compile(r"\b(internal|homepage|all_pages)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)")
COLUMNS = ("pages", "precision", "recall", "F")
OPEN_COLUMNS = (*COLUMNS, "average precision", "best F")


def first_table(lines):
    rows = {}
    for line in lines:
        if line.startswith("mean"):
            return rows
        if found := ROW.search(line):
            values = dict(zip(COLUMNS, map(float, found.groups()[1:])))
            rows.setdefault(found.group(1), []).append(values)
    sys.exit("no table of `evaluate classifier --topic all` in this file")


def open_tables(lines):
    tables, table = {}, None
    for line in lines:
        columns = line.split()
        if line.startswith("from ") and columns[-2:] == ["best", "F"]:
            table = tables.setdefault(int(columns[1]), {})
        elif table is not None and len(columns) == 1 + len(OPEN_COLUMNS):
            table[columns[0]] = dict(zip(OPEN_COLUMNS, map(float, columns[1:])))
        else:
            table = None
    return tables


def compare(before, after, rng):
    for examples in before.keys() & after.keys():
        one, two = before[examples], after[examples]
        topics = sorted(one.keys() & two.keys())
        print(f"from {examples} groups, {len(topics)} topics")
        for column in OPEN_COLUMNS:
            values = [(one[topic][column], two[topic][column]) for topic in topics]
            means = " -> ".join(f"{statistics.mean(side):.3f}" for side in zip(*values))
            differences = [after - before for before, after in values]
            low, high = interval(differences, rng)
            difference = f"{statistics.mean(differences):.3f} ({low:.3f} to {high:.3f})"
            print(f"{column:<18} {means}, difference {difference}")


def interval(values, rng):
    means = sorted(statistics.mean(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    return means[DRAWS // 40], means[-(DRAWS // 40)]


def show(name, values, rng):
    low, high = interval(values, rng)
    print(f"{name:<24} {statistics.mean(values):6.3f} ({low:.3f} to {high:.3f})")


def main():
    rng = random.Random(1)
    if len(sys.argv) == 3:
        before, after = (open_tables(open(name, encoding="utf-8")) for name in sys.argv[1:])
        compare(before, after, rng)
        return
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = first_table(file)
    for row, topics in rows.items():
        for column in COLUMNS[1:]:
            show(f"{row} {column}", [topic[column] for topic in topics], rng)
    first, *others = rows
    for other in others:
        pairs = zip(rows[first], rows[other])
        show(f"F {first} - {other}", [one["F"] - two["F"] for one, two in pairs], rng)


if __name__ == "__main__":
    main()
