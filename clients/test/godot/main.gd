extends Node
## The sender as a program, for the conformance kit: the page gives settings and lines, and gets what is printed.
## With INGEST_CHECKS, the checks that need no server.

var _sender: Node


func _ready() -> void:
	if JSON.parse_string(_call("settings()")).has("INGEST_CHECKS"):
		var checks: Node = load("res://checks.gd").new()
		add_child(checks)
		_call("finish(%s)" % JSON.stringify("\n".join(checks.run())))
		return
	_sender = load("res://addons/ingest/ingest_sender.gd").new()
	var env: Dictionary = JSON.parse_string(_call("settings()"))
	_sender.url = env.INGEST_URL
	_sender.project_id = env.INGEST_PROJECT_ID
	_sender.key = env.INGEST_KEY
	_sender.spool = env.get("INGEST_SPOOL", "")
	_sender.timeout_seconds = float(env.get("INGEST_TIMEOUT_MS", "30000")) / 1000
	_sender.flush_seconds = float(env.get("INGEST_FLUSH_MS", "2000")) / 1000
	_sender.queue_events_max = int(env.get("INGEST_QUEUE_EVENTS", "10000"))
	_sender.queue_bytes_max = int(env.get("INGEST_QUEUE_BYTES", "16777216"))
	_sender._pause_scale = float(env.get("INGEST_TIME_SCALE", "1"))
	_sender.dropped.connect(func(reason: String, events: Array, detail: String) -> void:
		print("dropped %d: %s: %s" % [events.size(), reason, detail]))
	_sender.retrying.connect(func(failure: String, seconds: float) -> void:
		print("retry in %.3f s: %s" % [seconds, failure]))
	add_child(_sender)
	if _sender.start() != OK:
		_call("refuse()")
		return
	await _read_lines()
	var stats: Dictionary = await _sender.close(float(env.get("INGEST_CLOSE_MS", "10000")) / 1000)
	var rejected: int = stats.dropped.get("rejected", 0)
	stats.dropped.erase("rejected")
	var result := {accepted = stats.accepted, duplicates = stats.duplicates, rejected = rejected}
	result.dropped = stats.dropped
	result.unsent = stats.queued_events
	_call("finish(%s)" % JSON.stringify(JSON.stringify(result)))


func _read_lines() -> void:
	var taken := 0
	while true:
		var lines: Array = JSON.parse_string(_call("takeLines()"))
		for line: Variant in lines:
			if line == null:
				return
			if line == "":
				await _sender.flush()
			else:
				_sender.send(JSON.parse_string(line))
				taken += 1
				_call("take(%d)" % taken)
		await get_tree().process_frame


func _call(expression: String) -> String:
	return str(JavaScriptBridge.eval("program." + expression))
