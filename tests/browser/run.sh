#!/usr/bin/env bash
# The dashboard in a real browser: first against a mock with hostile data, then against a daemon that
# crawls a generated web.
#
#   tests/browser/run.sh BINARY [further arguments of dashboard.mjs]
set -euo pipefail

if [ $# -lt 1 ]; then
  echo "usage: $0 BINARY [--screenshots DIR]" >&2
  exit 2
fi
binary=$(realpath "$1")
shift
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

for tool in chromium:chromium node:nodejs npm:npm; do
  if ! command -v "${tool%%:*}" > /dev/null; then
    echo "$0 needs ${tool%%:*}: apt-get install --no-install-recommends ${tool##*:}" >&2
    exit 1
  fi
done

# A copy, so that what npm installs stays out of the tree. It lies as deep as the original: the mock
# finds the dashboard from there.
copy=$root/target/browser
mkdir -p "$copy"
cp "$here"/.npmrc "$here"/package.json "$here"/package-lock.json "$here"/*.mjs "$copy"
(cd "$copy" && npm ci --no-audit --no-fund --silent)

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

# Says what a process wrote, if it ended before it was told to.
alive() {
  if ! kill -0 "$1" 2> /dev/null; then
    echo "it ended too soon:" >&2
    tail -n 20 "$2" >&2
    exit 1
  fi
}

echo '== against the mock'
node "$copy/dashboard.mjs" --mock "$@"

echo '== against a daemon on a generated web'
sites=400
seed=1
topic=chess

"$binary" serve-web --sites $sites --seed $seed --truth > "$place/truth.tsv"
# Not `head`, which would close the pipe on awk.
awk -F '\t' -v topic=$topic \
  '$2 == topic ? ++wanted <= 8 : ++other <= 40' "$place/truth.tsv" > "$place/labels.tsv"
start=$(awk -F '\t' -v topic=$topic '$2 == topic { print $1; exit }' "$place/truth.tsv")
(cd "$place" && "$binary" train $topic --web generated:$sites,$seed --labels labels.tsv --out models) \
  > "$place/training" 2>&1 || { cat "$place/training" >&2; exit 1; }
printf 'name = "%s"\nstart_sites = ["%s"]\n' $topic "$start" > "$place/models/$topic/topic.toml"

"$binary" serve-web --sites $sites --seed $seed --port 0 > "$place/web" 2>&1 &
web=$!
processes+=("$web")
until grep -q '^resolve' "$place/web"; do
  alive "$web" "$place/web"
  sleep 0.1
done

port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })')
echo a-token-of-this-test > "$place/token"
cat > "$place/daemon.toml" << SETTINGS
$(sed -n '/^\[fetch\]/,$p' "$place/web")
[fetch.politeness]
pause = "0 s"
[service]
topics = ["$topic"]
models = "$place/models"
state = "$place/state"
listen = "127.0.0.1:0"
low_disk = 0
[api]
listen = "127.0.0.1:$port"
token_file = "$place/token"
SETTINGS
(cd "$place" && exec "$binary" run --config daemon.toml) > "$place/log" 2>&1 &
daemon=$!
processes+=("$daemon")
until node -e 'fetch(process.argv[1]).then(() => {}, () => process.exit(1))' "http://127.0.0.1:$port/"; do
  alive "$daemon" "$place/log"
  sleep 0.2
done
node "$copy/dashboard.mjs" --url "http://127.0.0.1:$port/" --token-file "$place/token"
