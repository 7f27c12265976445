"""Sends events from standard input, one JSON object a line, and prints the response to each batch.

    INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… python3 send_batch.py < events.ndjson
"""

import http.client
import os
import random
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator

BATCH_EVENTS_MAX = 100
BATCH_BYTES_MAX = 262_144
TIMEOUT_SECONDS = 30
UNAUTHORIZED_PAUSE_SECONDS = 300
BACKOFF_SECONDS_MAX = 60


def batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Bodies of at most 100 events and 262,144 bytes. A larger event is a batch of its own, which is refused."""
    events: list[bytes] = []
    for line in lines:
        event = line.strip()
        if not event:
            continue
        size = len(b'{"events":[]}') + sum(len(each) + 1 for each in events) + len(event)
        if events and (len(events) == BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX):
            yield b'{"events":[%s]}' % b",".join(events)
            events = []
        events.append(event)
    if events:
        yield b'{"events":[%s]}' % b",".join(events)


def post(body: bytes) -> tuple[int, int, str]:
    """The status, Retry-After in seconds and body of the response. Without a response the status is 0."""
    headers = {
        "X-Project-Id": os.environ["INGEST_PROJECT_ID"],
        "X-Ingestion-Key": os.environ["INGEST_KEY"],
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(os.environ["INGEST_URL"] + "/v1/events/batch", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return response.status, 0, response.read().decode()
    except urllib.error.HTTPError as error:
        retry_after = error.headers.get("Retry-After", "")
        return error.code, int(retry_after) if retry_after.isdigit() else 0, error.reason
    except (OSError, http.client.HTTPException) as error:
        return 0, 0, str(error)


def send(body: bytes) -> bool:
    """Sends a batch until it is stored or refused. Every retry has the same bytes."""
    bound = 1
    while True:
        status, retry_after, text = post(body)
        if status == 202:
            print(text, flush=True)
            return True
        if status in (400, 413):
            print(f"dropped: {status} {text}", file=sys.stderr)
            return False
        if status == 401:
            print("401: sending pauses for 5 minutes", file=sys.stderr, flush=True)
            time.sleep(UNAUTHORIZED_PAUSE_SECONDS)
        elif status in (0, 408, 429) or status >= 500:
            time.sleep(max(retry_after, random.uniform(0, bound)))
            bound = min(bound * 2, BACKOFF_SECONDS_MAX)
        else:
            sys.exit(f"{status}: check INGEST_URL")


if __name__ == "__main__":
    sent = [send(body) for body in batches(sys.stdin.buffer)]
    sys.exit(0 if all(sent) else 1)
