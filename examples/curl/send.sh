#!/bin/sh
# Sends events from standard input, one JSON object a line, as one batch of at most 100, and prints the response:
#
#   INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… ./send.sh < events.ndjson
#
# curl follows no redirect unless it is asked to: the key stays with this host.
set -eu
: "${INGEST_URL:?}" "${INGEST_PROJECT_ID:?}" "${INGEST_KEY:?}"

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 143' INT TERM
# without empty lines
awk NF > "$directory/events"
count=$(wc -l < "$directory/events")
# a retry sends the same bytes
printf '{"events":[%s]}' "$(paste -s -d , "$directory/events")" > "$directory/batch.json"
# not an argument, which other users of the machine could read
printf 'header = "X-Ingestion-Key: %s"\n' "$INGEST_KEY" > "$directory/key"

# Whether the response accounts for each event. That of a proxy does not. A quote inside a string has a backslash, so that
# only a rejection begins with {"index":
is_result() {
  awk -v count="$count" '
    /^\{"accepted":[0-9]+,"duplicates":[0-9]+,"rejected":\[.*\]\}$/ {
      split($0, parts, /[:,]/)
      matches = parts[2] + parts[4] + gsub(/\{"index":/, "") == count
    }
    END { exit !matches }
  ' "$directory/response"
}

bound=1
while :; do
  status=$(curl --silent --show-error --config "$directory/key" --max-time 30 \
    --header "X-Project-Id: $INGEST_PROJECT_ID" --header 'Content-Type: application/json' \
    --data-binary "@$directory/batch.json" --dump-header "$directory/headers" \
    --output "$directory/response" --write-out '%{http_code}' \
    "$INGEST_URL/v1/events/batch") || status=000
  case $status in
  202)
    if is_result; then
      cat "$directory/response" && echo && exit 0
    fi
    ;;
  400 | 413) echo "dropped: $status $(cat "$directory/response")" >&2 && exit 1 ;;
  401)
    echo '401: sending pauses for 5 minutes' >&2
    sleep 300
    bound=1
    continue
    ;;
  esac
  echo "retrying: $status" >&2
  # Retry-After in seconds, at most an hour, or a random time up to a bound that doubles from 1 s to 60 s
  pause=$(awk -v bound="$bound" -v seed="$$$(date +%s)" '
    tolower($1) == "retry-after:" { after = $2 + 0 }
    END { srand(seed); pause = rand() * bound; if (after > pause) pause = after; if (pause > 3600) pause = 3600; print pause }
  ' "$directory/headers") || pause=$bound
  sleep "$pause"
  bound=$((bound * 2 < 60 ? bound * 2 : 60))
done
