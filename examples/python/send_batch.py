"""Sends events from standard input, one JSON object a line, and prints the response to each batch.

    INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… python3 send_batch.py < events.ndjson
"""

import email.utils
import http.client
import json
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
RETRY_AFTER_SECONDS_MAX = 3600


def batches(lines: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Bodies of at most 100 events and 262,144 bytes, with their number of events. A larger event is a batch of its own, which is refused."""
    events: list[bytes] = []
    for line in lines:
        event = line.strip()
        if not event:
            continue
        size = len(b'{"events":[]}') + sum(len(each) + 1 for each in events) + len(event)
        if events and (len(events) == BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX):
            yield b'{"events":[%s]}' % b",".join(events), len(events)
            events = []
        events.append(event)
    if events:
        yield b'{"events":[%s]}' % b",".join(events), len(events)


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: following it would send the key to another host."""

    def redirect_request(self, *_):
        return None


opener = urllib.request.build_opener(NoRedirects)


def retry_after_seconds(value: str) -> float:
    """Seconds or a date, at most an hour; 0 for anything else."""
    if value.isascii() and value.isdigit():
        seconds = float(value)
    else:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            seconds = 0
    return max(0, min(seconds, RETRY_AFTER_SECONDS_MAX))


def is_result(text: str, count: int) -> bool:
    """Whether a response accounts for each event of a batch. That of a proxy does not."""
    try:
        result = json.loads(text)
        numbers = [result["accepted"], result["duplicates"], len(result["rejected"])]
        is_list = isinstance(result["rejected"], list)
    except (KeyError, TypeError, ValueError):
        return False
    return is_list and all(type(number) is int and number >= 0 for number in numbers) and sum(numbers) == count


def post(body: bytes) -> tuple[int, float, str]:
    """The status, Retry-After in seconds and body of the response. Without a response the status is 0."""
    headers = {
        "X-Project-Id": os.environ["INGEST_PROJECT_ID"],
        "X-Ingestion-Key": os.environ["INGEST_KEY"],
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(os.environ["INGEST_URL"] + "/v1/events/batch", body, headers)
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            return response.status, 0, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, retry_after_seconds(error.headers.get("Retry-After", "")), error.reason
    except (OSError, http.client.HTTPException) as error:
        return 0, 0, str(error)


def send(body: bytes, count: int) -> bool:
    """Sends a batch until it is stored or refused. Every retry has the same bytes."""
    bound = 1
    while True:
        status, retry_after, text = post(body)
        if status == 202 and is_result(text, count):
            print(text, flush=True)
            return True
        if status in (400, 413):
            print(f"dropped: {status} {text}", file=sys.stderr)
            return False
        if status == 401:
            print("401: sending pauses for 5 minutes", file=sys.stderr, flush=True)
            time.sleep(UNAUTHORIZED_PAUSE_SECONDS)
            bound = 1
        else:
            print(f"retrying: {status} {text[:200]}", file=sys.stderr, flush=True)
            time.sleep(max(retry_after, random.uniform(0, bound)))
            bound = min(bound * 2, BACKOFF_SECONDS_MAX)


if __name__ == "__main__":
    sent = [send(body, count) for body, count in batches(sys.stdin.buffer)]
    sys.exit(0 if all(sent) else 1)
