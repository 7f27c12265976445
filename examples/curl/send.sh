#!/bin/sh
# Sends one batch from standard input and prints the response:
#
#   INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… ./send.sh < batch.json
#
# curl retries 408, 429, 5xx and connection errors, not before Retry-After. Its backoff doubles without jitter.
set -eu
: "${INGEST_URL:?}" "${INGEST_PROJECT_ID:?}" "${INGEST_KEY:?}"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 143' INT TERM
# a retry sends the same bytes
cat > "$directory/batch.json"
# not an argument, which other users of the machine could read
printf 'header = "X-Ingestion-Key: %s"\n' "$INGEST_KEY" > "$directory/key"

while :; do
  status=$(curl --silent --show-error --config "$directory/key" \
    --max-time 30 --retry 8 --retry-max-time 300 --retry-connrefused \
    --header "X-Project-Id: $INGEST_PROJECT_ID" --header 'Content-Type: application/json' \
    --data-binary "@$directory/batch.json" --output "$directory/response" --write-out '%{http_code}' \
    "$INGEST_URL/v1/events/batch") || status=000
  case $status in
    202) cat "$directory/response" && echo && exit 0 ;;
    400 | 413) echo "dropped: $status $(cat "$directory/response")" >&2 && exit 1 ;;
    401) echo '401: sending pauses for 5 minutes' >&2 && sleep 300 ;;
    000 | 408 | 429 | 5??) sleep 1 ;;
    *) echo "$status: check INGEST_URL" >&2 && exit 1 ;;
  esac
done
