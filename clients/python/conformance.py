"""The program of this sender for `ingest conformance -- python3 conformance.py`."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))
from ingest_sender import Sender  # noqa: E402

env = os.environ
sender = Sender(
    env["INGEST_URL"],
    env["INGEST_PROJECT_ID"],
    env["INGEST_KEY"],
    spool=env.get("INGEST_SPOOL") or None,
    flush_seconds=int(env.get("INGEST_FLUSH_MS", "2000")) / 1000,
    timeout_seconds=int(env.get("INGEST_TIMEOUT_MS", "30000")) / 1000,
    queue_events_max=int(env.get("INGEST_QUEUE_EVENTS", "10000")),
    queue_bytes_max=int(env.get("INGEST_QUEUE_BYTES", "16777216")),
    pause_scale=float(env.get("INGEST_TIME_SCALE", "1")),
)
if env.get("INGEST_CHDIR"):
    os.chdir(env["INGEST_CHDIR"])
taken = 0
for line in sys.stdin.buffer:
    if line.strip():
        sender.send(json.loads(line))
        taken += 1
        print(f"taken {taken}", flush=True)
    else:
        sender.flush()
stats = sender.close(int(env.get("INGEST_CLOSE_MS", "10000")) / 1000)
dropped = {reason: count for reason, count in stats.dropped.items() if count and reason != "rejected"}
counts = {"accepted": stats.accepted, "duplicates": stats.duplicates, "rejected": stats.dropped["rejected"]}
print(json.dumps({**counts, "dropped": dropped, "unsent": stats.queued_events}))
