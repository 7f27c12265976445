extends Node


func _ready() -> void:
	Ingest.url = "https://ingest.example"
	Ingest.project_id = "game-1"
	Ingest.key = "the key"
	Ingest.dropped.connect(func(reason: String, events: PackedStringArray, detail: String) -> void:
		push_warning("Ingest dropped %d: %s. %s" % [events.size(), reason, detail]))
	Ingest.retrying.connect(func(failure: String, seconds: float) -> void:
		print("Ingest retries in %d s. %s" % [seconds, failure]))
	Ingest.start()
	Ingest.send({type = "round.start", buildId = "2026.11.20", players = 4})
