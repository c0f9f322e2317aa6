#!/usr/bin/env bash
# Checks the units without installing anything: systemd understands every line, and the
# sandboxes have not become weaker.
set -euo pipefail
cd "$(dirname "$0")"

# From 0 (closed) to 10 (open). The unit of the daemon has 1.1; the rest is network access, which a
# crawler needs.
most_exposure=1.5

scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

# systemd requires that the programs exist, and these may not be installed.
install -m 755 /bin/true "$scratch/program"
for unit in sitescout.service examples/sitescout-directory.service; do
  checked=$scratch/$(basename "$unit")
  sed -E "s,^(Exec(Start|Reload)=)/usr/(bin/sitescout|local/lib/sitescout/directory.py),\1$scratch/program," \
    "$unit" > "$checked"
  said=$(systemd-analyze verify --man=no "$checked" 2>&1) || true
  if [ -n "$said" ]; then
    # Unknown keys and values do not change its exit code, they only print a warning.
    echo "$said" >&2
    exit 1
  fi

  # The threshold is compared with ten times the exposure.
  if ! systemd-analyze security --no-pager --offline=true \
    --threshold="$(awk "BEGIN { print $most_exposure * 10 }")" "$checked" > "$scratch/exposure"; then
    cat "$scratch/exposure" >&2
    exit 1
  fi
  tail -n 1 "$scratch/exposure"
done
