extends Node
## Checks of the sender that need no server. `run` returns a line for each: its name and what went wrong.

const SPOOL := "user://checks"

var _lines := PackedStringArray()


func run() -> PackedStringArray:
	_check_properties()
	_check_event_ids()
	_check_unusual_values()
	_check_spool()
	_check_deleted_spool()
	_check_cut_response()
	_check_start_after_close()
	return _lines


func _make_sender() -> Node:
	var sender: Node = load("res://addons/ingest/ingest_sender.gd").new()
	sender.url = "http://127.0.0.1:1"
	sender.project_id = "demo"
	sender.key = "ik_key"
	sender.spool = ""
	add_child(sender)
	return sender


func _expect(name: String, seen: Variant, expected: Variant) -> void:
	_lines.append("%s: %s" % [name, "ok" if seen == expected else "%s in place of %s" % [seen, expected]])


func _check_properties() -> void:
	var wrong := [
		["url", ""], ["url", "secret.example"], ["url", "ftp://secret"], ["url", "http://"], ["url", "http://secret\n"],
		["url", "http://secret/a b"], ["url", "http://user:secret@host"], ["url", "http://host?secret"],
		["url", "http://host/#secret"], ["project_id", ""], ["project_id", "secret\n"], ["project_id", "secret/b"],
		["key", ""], ["key", "ik_secret\n"], ["key", "ik_secret\r\n"], ["key", " ik_secret"], ["key", "ik_secrét"],
		["timeout_seconds", 0.0], ["timeout_seconds", NAN], ["flush_seconds", -1.0], ["flush_seconds", NAN],
		["queue_events_max", 0], ["queue_bytes_max", 0],
	]
	for each: Array in wrong:
		var sender := _make_sender()
		sender.set(each[0], each[1])
		_expect("%s %s is refused" % [each[0], wrong.find(each)], sender.start(), ERR_INVALID_PARAMETER)
		sender.free()
	for url: String in ["http://127.0.0.1:1", "https://ingest.example/", "https://ingest.example/a@b/c"]:
		var sender := _make_sender()
		sender.url = url
		_expect("%s is taken" % url, sender.start(), OK)
		sender.free()


func _check_event_ids() -> void:
	var sender := _make_sender()
	for each: Array in [["a\n", false], ["\n", false], ["", false], [7, false], ["é".repeat(129), false], ["é".repeat(128), true]]:
		var id: String = sender.send({eventId = each[0]})
		_expect("eventId %s" % str(each[0]).c_escape().left(9), id != "", each[1])
	sender.free()


# The JSON of a value in an event, or null if the event is refused.
func _json_of(value: Variant) -> Variant:
	var texts: Array[String] = []
	var sender := _make_sender()
	# before the start, events are dropped as they would be sent
	sender.dropped.connect(func(_reason: String, events: PackedStringArray, _detail: String) -> void: texts.append(events[0]))
	sender.send({projectId = "demo", eventId = "a", x = value})
	sender.free()
	return null if texts.is_empty() else texts[0].trim_prefix('{"projectId":"demo","eventId":"a","x":').trim_suffix("}")


func _check_unusual_values() -> void:
	var deep: Variant = 1
	for _level in 40:
		deep = [deep]
	var cyclic := []
	cyclic.append(cyclic)
	for each: Array in [
		["lone surrogate", String.chr(0xd800), '"\ufffd"'],
		["negative zero", -0.0, "0.0"],
		["NAN", NAN, null],
		["INF", INF, null],
		["1e400", "1e400".to_float(), null],
		["2^53 + 1", 9007199254740993, "9007199254740993"],
		["40 levels", deep, null],
		["a list in itself", cyclic, null],
		["bytes", PackedByteArray([1]), null],
		["set", {a = true}, '{"a":true}'],
		["null", null, "null"],
		["empty list", [], "[]"],
		["empty object", {}, "{}"],
		["date", Time.get_date_dict_from_unix_time(0), '{"year":1970,"month":1,"day":1,"weekday":4}'],
	]:
		_expect(each[0], _json_of(each[1]), each[2])
	cyclic.clear()
	_expect("nothing in place of an event", _send_nothing(), "")


# Empty, as the engine refuses the call.
func _send_nothing() -> Variant:
	var sender: Variant = _make_sender()
	var nothing: Variant = null
	return sender.send(nothing)


func _check_spool() -> void:
	DirAccess.make_dir_recursive_absolute(SPOOL)
	var lines := ['{"n":9}', '{"s":"é"}', "not JSON", "7", '{"n":10}', '{"n":']
	var bytes := "\n".join(lines).to_utf8_buffer()
	# no UTF-8 any more
	bytes[bytes.find(0xc3)] = 0x20
	var files := {"0000000000000009.00000001": bytes, "0000000000000010.00000000": '{"n":11}\n'.to_utf8_buffer()}
	for name: String in files:
		FileAccess.open(SPOOL.path_join(name + ".demo.spool"), FileAccess.WRITE).store_buffer(files[name])
	var sender := _make_sender()
	sender.spool = SPOOL
	_expect("start with a damaged spool", sender.start(), OK)
	sender.send({n = 12})
	_expect("damaged events", sender.stats().dropped, {damaged = 3})
	_expect("events of the spool", sender.stats().queued_events, 4)
	sender.close(0)
	_expect("events that are kept", sender.stats().queued_events, 4)
	var names := DirAccess.get_files_at(SPOOL)
	names.sort()
	_expect("files", names.size(), 3)
	_expect("the last has the next number", names[2].begins_with("0000000000000011."), true)
	sender.free()
	for name in names:
		DirAccess.remove_absolute(SPOOL.path_join(name))


func _check_deleted_spool() -> void:
	var sender := _make_sender()
	sender.spool = SPOOL
	sender.start()
	sender.send({n = 1})
	DirAccess.remove_absolute(SPOOL.path_join(DirAccess.get_files_at(SPOOL)[0]))
	DirAccess.remove_absolute(SPOOL)
	sender.send({n = 2})
	_expect("failure of a deleted spool", sender.stats().failure, SPOOL + " was deleted: the events in memory are written to it again.")
	var names := DirAccess.get_files_at(SPOOL)
	_expect("events of a deleted spool", FileAccess.get_file_as_string(SPOOL.path_join(names[0])).count("\n"), 2)
	# a single file
	DirAccess.remove_absolute(SPOOL.path_join(names[0]))
	sender.close(0)
	_expect("events that are kept in a file that was deleted", sender.stats().queued_events, 2)
	_expect("files that were deleted", DirAccess.get_files_at(SPOOL), names)
	sender.free()
	for name in names:
		DirAccess.remove_absolute(SPOOL.path_join(name))


func _check_cut_response() -> void:
	var sender := _make_sender()
	var failures: Array[String] = []
	sender.retrying.connect(func(failure: String, _seconds: float) -> void: failures.append(failure))
	var details: Array[String] = []
	sender.dropped.connect(func(_reason: String, _events: Array, detail: String) -> void: details.append(detail))
	sender.start()
	sender.send({n = 1})
	var rejected := '{"accepted":0,"duplicates":0,"rejected":[{"index":0,"issues":["ik_key\\u001b\\u2028"]}]}'
	for each: Array in [
		[HTTPRequest.RESULT_CONNECTION_ERROR, 400, ""],
		[HTTPRequest.RESULT_SUCCESS, 202, "<html>"],
		[HTTPRequest.RESULT_SUCCESS, 202, rejected],
	]:
		sender._is_in_flight = true
		sender._on_completed(each[0], each[1], [], (each[2] as String).to_utf8_buffer())
	var failed := ["Request failed with result %d." % HTTPRequest.RESULT_CONNECTION_ERROR]
	failed.append("The server responded with 202, not with a result of Ingest.")
	_expect("a response that is cut, and a page", failures, failed)
	_expect("detail of a rejection", details, ['[{"index":0.0,"issues":["[key]  "]}]'])
	sender.free()


func _check_start_after_close() -> void:
	var sender := _make_sender()
	_expect("first start", sender.start(), OK)
	_expect("start while it runs", sender.start(), ERR_ALREADY_IN_USE)
	sender.close(0)
	sender.close(0)
	_expect("start after a close", sender.start(), OK)
	sender.free()
