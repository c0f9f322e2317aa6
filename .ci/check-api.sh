#!/usr/bin/env bash
# Tests a running daemon against its OpenAPI description: schemathesis generates valid and invalid
# requests and checks every response. Called by with-daemon.sh.
#
#   .ci/with-daemon.sh BINARY .ci/check-api.sh SCHEMATHESIS
set -euo pipefail

schemathesis=$(realpath "$1")
# It leaves files in the working directory.
cd "$(dirname "$SITESCOUT_TOKEN_FILE")"
# Not `positive_data_acceptance`: a valid request may name a topic or a host that does not
# exist. Not `object_level_authorization`: there are no users.
"$schemathesis" run "$SITESCOUT_API/v1/openapi.json" \
  --header "Authorization: Bearer $(cat "$SITESCOUT_TOKEN_FILE")" \
  --checks all \
  --exclude-checks positive_data_acceptance,object_level_authorization \
  --phases examples,coverage,fuzzing \
  --max-examples 30 \
  --request-timeout 100 \
  --seed 1 \
  --warnings off
