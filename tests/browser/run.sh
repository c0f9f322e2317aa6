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

echo '== against the mock'
node "$copy/dashboard.mjs" --mock "$@"

echo '== against a daemon on a generated web'
"$root/.ci/with-daemon.sh" "$binary" bash -c \
  'node "$0" --url "$SITESCOUT_API/" --token-file "$SITESCOUT_TOKEN_FILE"' "$copy/dashboard.mjs"
