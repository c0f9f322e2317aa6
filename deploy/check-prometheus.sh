#!/usr/bin/env bash
# Checks the scrape configuration, the rules with their tests, and the queries of the dashboard.
set -euo pipefail
cd "$(dirname "$0")"

promtool check config --lint=all --lint-fatal prometheus/scrape.yml
promtool check rules --lint=all --lint-fatal prometheus/rules.yml
promtool test rules prometheus/rules.test.yml

# promtool checks rules only, so each query of the dashboard becomes one. Grafana variables occur
# inside strings only.
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
python3 - > "$scratch/dashboard.yml" <<'END'
import json

def queries(value):
    if isinstance(value, dict):
        if "expr" in value:
            yield value["expr"]
        for inner in value.values():
            yield from queries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from queries(inner)

with open("grafana/sitescout.json") as file:
    found = list(queries(json.load(file)))
rules = [{"record": f"dashboard:{number}", "expr": query} for number, query in enumerate(found)]
# JSON is YAML too.
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
END
promtool check rules "$scratch/dashboard.yml"
