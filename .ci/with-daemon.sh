#!/usr/bin/env bash
# Runs a command against a daemon that crawls a generated web on loopback, and stops both.
#
#   .ci/with-daemon.sh BINARY COMMAND [ARGUMENTS]
#
# The command gets the address of the API in SITESCOUT_API and the file with its token in
# SITESCOUT_TOKEN_FILE. Further settings of [api] come from SITESCOUT_API_SETTINGS.
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: $0 BINARY COMMAND [ARGUMENTS]" >&2
  exit 2
fi
binary=$(realpath "$1")
shift

place=$(mktemp -d)
processes=()
stop() {
  for process in "${processes[@]}"; do
    kill "$process" 2> /dev/null || true
  done
  for process in "${processes[@]}"; do
    wait "$process" 2> /dev/null || true
  done
  rm -rf "$place"
}
trap stop EXIT

# Fails with the log of a process, if it has exited.
alive() {
  if ! kill -0 "$1" 2> /dev/null; then
    echo "a process exited too early:" >&2
    tail -n 20 "$2" >&2
    exit 1
  fi
}

sites=${SITESCOUT_SITES:-400}
topic=${SITESCOUT_TOPIC:-chess}
seed=1
"$binary" serve-web --sites "$sites" --seed $seed --truth > "$place/truth.tsv"
# Not `head`, which would close the pipe while awk writes.
awk -F '\t' -v topic="$topic" \
  '$2 == topic ? ++wanted <= 8 : ++other <= 40' "$place/truth.tsv" > "$place/labels.tsv"
start=$(awk -F '\t' -v topic="$topic" '$2 == topic { print $1; exit }' "$place/truth.tsv")
(cd "$place" && "$binary" train "$topic" --web "generated:$sites,$seed" --labels labels.tsv --out models) \
  > "$place/training" 2>&1 || { cat "$place/training" >&2; exit 1; }
printf 'name = "%s"\nstart_sites = ["%s"]\n' "$topic" "$start" > "$place/models/$topic/topic.toml"

"$binary" serve-web --sites "$sites" --seed $seed --port 0 > "$place/web" 2>&1 &
processes+=($!)
until grep -q '^resolve' "$place/web"; do
  alive "${processes[0]}" "$place/web"
  sleep 0.1
done

echo a-token-of-this-test > "$place/token"
cat > "$place/daemon.toml" << SETTINGS
[log]
format = "json"
$(sed -n '/^\[fetch\]/,$p' "$place/web")
[fetch.politeness]
pause = "0 s"
[service]
topics = ["$topic"]
models = "models"
state = "state"
listen = "127.0.0.1:0"
low_disk = 0
[api]
listen = "127.0.0.1:0"
token_file = "token"
${SITESCOUT_API_SETTINGS:-}
SETTINGS
(cd "$place" && exec "$binary" run --config daemon.toml) > "$place/log" 2>&1 &
processes+=($!)
until grep -q 'the API is served' "$place/log"; do
  alive "${processes[1]}" "$place/log"
  sleep 0.1
done
address=$(sed -n 's/.*the API is served","address":"\([^"]*\)".*/\1/p' "$place/log")

export SITESCOUT_API="http://$address" SITESCOUT_TOKEN_FILE=$place/token SITESCOUT_TOPIC=$topic
"$@"
alive "${processes[1]}" "$place/log"
