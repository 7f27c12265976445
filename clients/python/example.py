import os

from ingest_sender import Sender

url, project_id, key = (os.environ[name] for name in ("INGEST_URL", "INGEST_PROJECT_ID", "INGEST_KEY"))

with Sender(url, project_id, key, spool="spool") as sender:
    sender.send({"type": "round.start", "buildId": "2026.11.20"})

print(sender.stats())
