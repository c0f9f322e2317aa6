#!/usr/bin/env python3
"""Do decisions from the editors' queue improve a model faster than random ones?

For each topic and draw: half of the groups of sites are the pool, the other half are the test set.
A model is trained on a few labelled sites of the pool. Then an editor decides on some more: the
first of the queue, that is those about which the model is least sure (sites of an archive have no
recommendations, so the other half of the committee has no vote), or as many at random. The model is
retrained with these decisions, and judges the test set.

    benches/queue.py BINARY sites.warc.gz sites.labels.tsv --topics music_software sports_club

Prints the mean F over draws: before, after random decisions (`random`), and after decisions from
the queue.
"""
import argparse
import itertools
import json
import math
import pathlib
import random
import subprocess
import tempfile

TARGETS, OTHERS = 4, 30


def entropy(share):
    mean = (share + 0.5) / 2
    return -sum(part * math.log2(part) for part in (mean, 1 - mean) if part > 0)


class Bench:
    def __init__(self, options, place):
        self.options = options
        self.place = pathlib.Path(place)
        rows = pathlib.Path(options.labels).read_text().splitlines()
        rows = [row.split("\t") for row in rows if row and not row.startswith("#")]
        self.sites = [(row[0], row[1], row[2] if len(row) > 2 else row[0]) for row in rows]

    def run(self, *arguments):
        command = [self.options.binary, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.place)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def confidences(self, topic, labelled, wanted):
        """The confidence of each wanted site, by a model trained on the labelled ones."""
        labels = "".join("\t".join(site) + "\n" for site in labelled)
        (self.place / "labels.tsv").write_text(labels)
        (self.place / "hosts.txt").write_text("".join(site[0] + "\n" for site in wanted))
        warc = pathlib.Path(self.options.warc).resolve()
        self.run("train", topic, "--warc", warc, "--labels", "labels.tsv", "--out", "models")
        model = self.place / "models" / topic
        judged = self.run(
            "classify", "--model", model, "--warc", warc, "--hosts", "hosts.txt", "--json"
        )
        lines = [json.loads(line) for line in judged.splitlines()]
        return {
            line["host"]: line["confidence"] if line["verdict"] != "undecided" else None
            for line in lines
        }

    def f_measure(self, topic, labelled, test):
        confidences = self.confidences(topic, labelled, test)
        found = {host for host, share in confidences.items() if share is not None and share > 0.5}
        folded = {site[0].removeprefix("www."): site[1] for site in test}
        right = sum(folded.get(host) == topic for host in found)
        targets = sum(label == topic for label in folded.values())
        return 2 * right / max(len(found) + targets, 1)

    def draw(self, topic, seed):
        """F before, at random, and by the queue; None if a half has too few sites of the topic."""
        rng = random.Random(f"{topic} {seed}")
        groups = sorted({site[2] for site in self.sites})
        rng.shuffle(groups)
        of_pool = set(groups[: len(groups) // 2])
        pool = [site for site in self.sites if site[2] in of_pool]
        test = [site for site in self.sites if site[2] not in of_pool]
        rng.shuffle(pool)
        targets = [site for site in pool if site[1] == topic]
        if len(targets) <= TARGETS or len(targets) == sum(site[1] == topic for site in self.sites):
            return None
        others = [site for site in pool if site[1] != topic]
        known = targets[:TARGETS] + others[:OTHERS]
        rest = targets[TARGETS:] + others[OTHERS:]
        shares = self.confidences(topic, known, rest)
        share = lambda site: shares.get(site[0].removeprefix("www."))
        candidates = [site for site in rest if share(site) is not None]
        queue = sorted(candidates, key=lambda site: -entropy(share(site)))
        sampled = rng.sample(candidates, min(self.options.decisions, len(candidates)))
        return (
            self.f_measure(topic, known, test),
            self.f_measure(topic, known + sampled, test),
            self.f_measure(topic, known + queue[: self.options.decisions], test),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("warc")
    parser.add_argument("labels")
    parser.add_argument("--topics", nargs="+", required=True)
    parser.add_argument("--decisions", type=int, default=10)
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.decisions} decisions, means of {options.draws} draws")
    print(f"{'F on the test':<16} {'before':>8} {'random':>8} {'by queue':>9}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(options, place)
        totals = []
        for topic in options.topics:
            drawn = (bench.draw(topic, seed) for seed in itertools.count())
            draws = list(itertools.islice(filter(None, drawn), options.draws))
            means = [sum(column) / len(draws) for column in zip(*draws)]
            totals.append(means)
            print(f"{topic:<16} {means[0]:>8.3f} {means[1]:>8.3f} {means[2]:>9.3f}", flush=True)
        means = [sum(column) / len(totals) for column in zip(*totals)]
        print(f"{'mean':<16} {means[0]:>8.3f} {means[1]:>8.3f} {means[2]:>9.3f}")


if __name__ == "__main__":
    main()
