#!/usr/bin/env bash
# Fails if a check was skipped that is not on the list.
#
#   .ci/check-skipped.sh LOG ['NAME: why' …]
#
# LOG is the output of the checks, with a line `skipped: NAME: why` for each skipped one. The other
# arguments are those that may be skipped; the reason must match, too.
set -euo pipefail

log=$1
shift
allowed=("$@")

# Without this line the log is incomplete.
if ! grep -qE '^[0-9]+ checks? skipped$' "$log"; then
  echo "$log does not say how many checks were skipped: cargo test has not come to its end" >&2
  exit 1
fi

# Output of the test harness may precede it on the line, if tests run one by one.
mapfile -t found < <(grep -aoE 'skipped: .+: .+' "$log" | sed 's/^skipped: //' | sort -u)
unexpected=0
for skipped in "${found[@]}"; do
  is_allowed=false
  for named in "${allowed[@]}"; do
    if [ "$skipped" = "$named" ]; then is_allowed=true; fi
  done
  if $is_allowed; then
    echo "skipped, as it may be: $skipped"
  else
    echo "skipped, and must not be: $skipped" >&2
    unexpected=$((unexpected + 1))
  fi
done
echo "$unexpected checks skipped that must not be"
[ "$unexpected" = 0 ]
