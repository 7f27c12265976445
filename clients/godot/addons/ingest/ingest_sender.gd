class_name IngestSender
extends Node
## Sends events to Ingest in batches, in their order, until each is stored or dropped.
##
## Set the properties, then call [method start]. It runs in [method Node._process], on the main thread, also while the
## game is paused.

## Events were dropped; [param detail] is the response of the server, or why they were not sent.
signal dropped(reason: String, events: PackedStringArray, detail: String)
## The first batch is sent again after a pause.
signal retrying(failure: String, pause_seconds: float)
signal _progressed

const BATCH_EVENTS_MAX := 100
const BATCH_BYTES_MAX := 262144
const EVENT_BYTES_MAX := BATCH_BYTES_MAX - 13 # without {"events":[]}
const RESPONSE_BYTES_MAX := 4 * 1024 * 1024
const RETRY_AFTER_SECONDS_MAX := 3600.0
const UNAUTHORIZED_SECONDS := 300.0
const DEPTH_MAX := 32
const MONTHS := ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

## Address of the server, with any path in front of [code]/v1[/code].
@export var url := ""
@export var project_id := ""
## A key of the project with the scope [code]events:write[/code].
@export var key := ""
## How long an event waits for others.
@export var flush_seconds := 2.0
## Of one attempt, with the body of the response.
@export var timeout_seconds := 30.0
## Events queued or in flight; more are dropped.
@export var queue_events_max := 10000
@export var queue_bytes_max := 16 * 1024 * 1024
## A directory that keeps the queue across restarts, for one process at a time; empty for none.
@export var spool := "user://ingest"

var _batches: Array[Batch] = [] # the first may be in flight, the last is being filled
var _stats := {
	accepted = 0, duplicates = 0, dropped = {}, retries = 0, queued_events = 0, queued_bytes = 0, failure = "",
}
var _http: HTTPRequest
var _endpoint := ""
var _headers := PackedStringArray()
var _is_in_flight := false
var _is_closing := true
var _is_ended := true
var _attempt_ends_at := 0.0
var _retry_at := 0.0
var _deadline_at := INF
var _backoff_seconds := 1.0
var _pause_scale := 1.0
var _file_number := 0
var _file_id := "%08x" % randi()


class Batch:
	var events := PackedStringArray()
	var bytes := 0
	var due_at := 0.0
	var is_sealed := false
	var path := ""
	var spooled := 0 # how many of the first events are in the file


## Starts to send, first the events of the spool. Returns [constant ERR_INVALID_PARAMETER] if a property is invalid.
func start() -> Error:
	var fault := _find_fault()
	if fault:
		push_error(fault)
		return ERR_INVALID_PARAMETER
	if not _is_ended:
		return ERR_ALREADY_IN_USE
	_endpoint = url.rstrip("/") + "/v1/events/batch"
	_headers = ["Content-Type: application/json", "X-Project-Id: " + project_id, "X-Ingestion-Key: " + key]
	process_mode = Node.PROCESS_MODE_ALWAYS
	_http = HTTPRequest.new()
	_http.max_redirects = 0 # following a redirect would send the key to another host
	_http.body_size_limit = RESPONSE_BYTES_MAX
	_http.accept_gzip = false
	_http.request_completed.connect(_on_completed)
	add_child(_http)
	_is_closing = false
	_is_ended = false
	_deadline_at = INF
	_retry_at = 0.0
	_backoff_seconds = 1.0
	_read_spool()
	return OK


## Queues an event and returns its [code]eventId[/code]. Adds a missing [code]eventId[/code] and [code]projectId[/code].
## An event that does not fit, or comes after a close, is dropped and counted. Returns an empty string for an invalid
## event.
func send(event: Dictionary) -> String:
	var full := event.duplicate()
	if not full.has("projectId"):
		full.projectId = project_id
	if not full.has("eventId"):
		full.eventId = _make_id()
	if not full.eventId is String or not _matches(full.eventId, "[^\\x00-\\x1f\\x7f]+") \
			or full.eventId.to_utf8_buffer().size() > 256:
		push_error("eventId must be a text of 1 to 256 bytes, without control characters.")
		return ""
	var text: Variant = _to_json(full, 1)
	if text == null:
		return ""
	var bytes := (text as String).to_utf8_buffer().size()
	var is_full: bool = _stats.queued_events >= queue_events_max or _stats.queued_bytes + bytes > queue_bytes_max
	if _is_closing:
		_drop("closed", [text], "The sender is not started, or closed.")
	elif bytes > EVENT_BYTES_MAX:
		_drop("too_large", [text], "The event is larger than a batch.")
	elif is_full:
		_drop("queue_overflow", [text], "The queue is full.")
	else:
		_enqueue(text, bytes)
	return full.eventId


## Sends now. Returns when all earlier events are stored or dropped, or the sender has ended.
func flush() -> void:
	var last: Batch = _batches.back() if _batches else null
	if last:
		last.due_at = 0
	while last and last in _batches and not _is_ended:
		await _progressed


## Accepts no further events and sends the queue until the deadline, less if no retry fits. The rest stays in the spool,
## or is dropped as [code]closed[/code]. A second close can only shorten the deadline. Returns [method stats].
func close(deadline_seconds := 10.0) -> Dictionary:
	_is_closing = true
	_deadline_at = minf(_deadline_at, _now() + deadline_seconds)
	if deadline_seconds <= 0:
		_end()
	while not _is_ended:
		await _progressed
	return stats()


## The counters: each event is accepted, a duplicate, queued, or dropped for a reason.
func stats() -> Dictionary:
	return _stats.duplicate(true)


func _exit_tree() -> void:
	_is_closing = true
	_end()


func _process(_delta: float) -> void:
	var now := _now()
	if _is_ended:
		return
	if _is_closing and (_batches.is_empty() or maxf(now, _retry_at) >= _deadline_at):
		_end()
	elif _is_in_flight:
		if now >= _attempt_ends_at:
			_http.cancel_request()
			_on_completed(HTTPRequest.RESULT_TIMEOUT, 0, [], [])
	elif _batches and now >= _retry_at:
		var batch := _batches[0]
		if _is_closing or _batches.size() > 1 or batch.events.size() == BATCH_EVENTS_MAX or now >= batch.due_at:
			_attempt(batch)


func _attempt(batch: Batch) -> void:
	batch.is_sealed = true
	_is_in_flight = true
	_attempt_ends_at = _now() + timeout_seconds
	var body := '{"events":[' + ",".join(batch.events) + "]}"
	var error := _http.request(_endpoint, _headers, HTTPClient.METHOD_POST, body)
	if error != OK:
		_on_completed(HTTPRequest.RESULT_CANT_CONNECT, 0, [], [])


func _on_completed(result: int, status: int, headers: PackedStringArray, body: PackedByteArray) -> void:
	if _is_ended or not _is_in_flight:
		return
	_is_in_flight = false
	var batch := _batches[0]
	var response := {}
	var failure := "Request failed with result %d." % result
	# a truncated response is none; a redirect, which is not followed, has no body
	if result != HTTPRequest.RESULT_SUCCESS and result != HTTPRequest.RESULT_REDIRECT_LIMIT_REACHED:
		status = 0
		headers = []
	elif status == 202:
		response = _parse_result(body.get_string_from_utf8(), batch.events.size())
		failure = "The server responded with 202, not with a result of Ingest."
	else:
		failure = "The server responded with %d." % status
	_stats.failure = "" if response else failure
	if response:
		_stats.accepted += int(response.accepted)
		_stats.duplicates += int(response.duplicates)
		_remove(batch)
		var rejected: Array = response.rejected.map(func(each: Dictionary) -> String: return batch.events[int(each.index)])
		_drop("rejected", rejected, _clean(JSON.stringify(response.rejected)))
	elif status == 400 or status == 413:
		_remove(batch)
		_drop("bad_request" if status == 400 else "too_large", batch.events, failure)
	else:
		_pause(status, headers, failure)
	_progressed.emit()


# A response may repeat the key, and its control characters would forge lines of a log.
func _clean(text: String) -> String:
	var pattern := RegEx.create_from_string("[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]")
	return pattern.sub(text.replace(key, "[key]"), " ", true)


func _pause(status: int, headers: PackedStringArray, failure: String) -> void:
	var is_unauthorized := status == 401 or status == 403
	var seconds := UNAUTHORIZED_SECONDS if is_unauthorized else _parse_retry_after(headers) + randf() * _backoff_seconds
	_backoff_seconds = 1.0 if is_unauthorized else minf(_backoff_seconds * 2, 60.0)
	_retry_at = _now() + seconds * _pause_scale
	_stats.retries += 1
	retrying.emit(failure, seconds)


func _end() -> void:
	if _is_ended:
		return
	_is_ended = true
	_is_in_flight = false
	_http.cancel_request()
	_http.queue_free()
	var lost := PackedStringArray()
	for batch in _batches:
		_restore(batch)
		lost.append_array(batch.events.slice(batch.spooled))
	_stats.queued_events -= lost.size()
	for text in lost:
		_stats.queued_bytes -= text.to_utf8_buffer().size()
	_batches.clear()
	_drop("closed", lost, "The sender was closed.")
	_progressed.emit()


func _enqueue(text: String, bytes: int) -> void:
	if spool and not DirAccess.dir_exists_absolute(spool):
		DirAccess.make_dir_recursive_absolute(spool)
		_stats.failure = spool + " was deleted: the events in memory are written to it again."
		for each in _batches:
			_restore(each)
	var batch: Batch = _batches.back() if _batches else null
	if not batch or batch.is_sealed or batch.events.size() == BATCH_EVENTS_MAX \
			or batch.bytes + batch.events.size() + bytes > EVENT_BYTES_MAX: # with a comma for each event
		batch = Batch.new()
		batch.due_at = _now() + flush_seconds
		_batches.append(batch)
	if spool and batch.spooled == batch.events.size():
		_append_to_spool(batch, text)
	_add(batch, text, bytes)


func _add(batch: Batch, text: String, bytes: int) -> void:
	batch.events.append(text)
	batch.bytes += bytes
	_stats.queued_events += 1
	_stats.queued_bytes += bytes


func _remove(batch: Batch) -> void:
	_backoff_seconds = 1.0
	_batches.erase(batch)
	_stats.queued_events -= batch.events.size()
	_stats.queued_bytes -= batch.bytes
	if batch.path:
		DirAccess.remove_absolute(batch.path)


func _drop(reason: String, events: PackedStringArray, detail: String, unreadable := 0) -> void:
	if events.size() + unreadable > 0:
		_stats.dropped[reason] = _stats.dropped.get(reason, 0) + events.size() + unreadable
		dropped.emit(reason, events, detail)


# The spool has a file for each batch, with one event per line; it is deleted when the batch is stored or dropped.
func _read_spool() -> void:
	if not spool:
		return
	DirAccess.make_dir_recursive_absolute(spool)
	var damaged := 0
	var names := DirAccess.get_files_at(spool)
	names.sort()
	for file_name in names:
		if not _matches(file_name, "\\d{16}\\.[0-9a-f]{8}\\." + project_id.replace(".", "\\.") + "\\.spool"):
			continue
		_file_number = int(file_name.left(16))
		var batch := Batch.new()
		batch.path = spool.path_join(file_name)
		batch.is_sealed = true
		var content := FileAccess.get_file_as_bytes(batch.path)
		if FileAccess.get_open_error() != OK: # otherwise it would be deleted as empty
			_stats.failure = "%s cannot be read: %s" % [batch.path, error_string(FileAccess.get_open_error())]
			continue
		var start_at := 0
		var end_at := content.find(10)
		while end_at >= 0: # a last line without an end was not written completely
			var line := content.slice(start_at, end_at)
			var text := line.get_string_from_utf8()
			if text.to_utf8_buffer() == line and JSON.parse_string(text) is Dictionary:
				_add(batch, text, line.size())
			else:
				damaged += 1
			start_at = end_at + 1
			end_at = content.find(10, start_at)
		batch.spooled = batch.events.size()
		if batch.spooled > 0:
			_batches.append(batch)
		else:
			DirAccess.remove_absolute(batch.path)
	_drop("damaged", [], "Unreadable in the spool.", damaged)


# Writes the file of a batch again if it was deleted. Otherwise its events are in memory only.
func _restore(batch: Batch) -> void:
	if batch.spooled == 0 or FileAccess.file_exists(batch.path):
		return
	DirAccess.make_dir_recursive_absolute(spool)
	var file := FileAccess.open(batch.path, FileAccess.WRITE)
	if file:
		file.store_string("\n".join(batch.events.slice(0, batch.spooled)) + "\n")
		file.flush()
	if not file or file.get_error() != OK:
		batch.spooled = 0


# Once the operating system has the event, it outlives the process, but not a power loss. Closing the file also saves it
# in the storage of a browser.
func _append_to_spool(batch: Batch, text: String) -> void:
	if not batch.path:
		_file_number += 1
		batch.path = spool.path_join("%016d.%s.%s.spool" % [_file_number, _file_id, project_id])
	var file := FileAccess.open(batch.path, FileAccess.READ_WRITE if batch.spooled else FileAccess.WRITE)
	if file:
		file.seek_end()
		file.store_string(text + "\n")
		file.flush()
	var error := file.get_error() if file else FileAccess.get_open_error()
	if error == OK:
		batch.spooled += 1
	else:
		_stats.failure = "The spool cannot be written: " + error_string(error)


# The result of a batch; empty for a body that does not account for each event, as of a proxy.
func _parse_result(text: String, count: int) -> Dictionary:
	var json := JSON.new()
	if json.parse(text) != OK or not json.data is Dictionary or not json.data.get("rejected") is Array:
		return {}
	var indexes := {}
	for entry: Variant in json.data.rejected:
		if entry is Dictionary and entry.get("issues") is Array and _whole(entry.get("index"), count - 1) >= 0:
			indexes[int(entry.index)] = true
	var sum := _whole(json.data.get("accepted"), count) + _whole(json.data.get("duplicates"), count) + indexes.size()
	return json.data if sum == count and indexes.size() == json.data.rejected.size() else {}


# The value if it is an integer from 0 to the maximum; otherwise a number that makes any sum wrong.
func _whole(value: Variant, maximum: int) -> int:
	var is_number := value is float or value is int
	return int(value) if is_number and value >= 0 and value <= maximum and value == floorf(value) else -1000


# Seconds or a date, at most an hour; 0 for anything else.
func _parse_retry_after(headers: PackedStringArray) -> float:
	for header in headers:
		if header.get_slice(":", 0).to_lower() != "retry-after":
			continue
		var value := header.substr(header.find(":") + 1).strip_edges()
		if _matches(value, "[0-9]+"):
			return minf(value.to_float(), RETRY_AFTER_SECONDS_MAX)
		var date := RegEx.create_from_string("^\\w{3}, (\\d\\d) (\\w{3}) (\\d{4}) (\\d\\d:\\d\\d:\\d\\d) GMT$").search(value)
		var month := MONTHS.find(date.get_string(2)) + 1 if date else 0
		if month > 0:
			var iso := "%s-%02d-%sT%s" % [date.get_string(3), month, date.get_string(1), date.get_string(4)]
			var seconds := Time.get_unix_time_from_datetime_string(iso) - Time.get_unix_time_from_system()
			return clampf(seconds, 0, RETRY_AFTER_SECONDS_MAX)
	return 0.0


# The JSON of a value. Null, and an error, for one that JSON or the server does not allow: it would cost its whole batch.
func _to_json(value: Variant, depth: int) -> Variant:
	if value is String or value is StringName:
		return _quote(value)
	if value == null or value is bool or value is int or (value is float and is_finite(value)):
		return JSON.stringify(value, "", true, true)
	var items := PackedStringArray()
	if (value is Array or value is PackedStringArray) and depth <= DEPTH_MAX:
		for each: Variant in value:
			var item: Variant = _to_json(each, depth + 1)
			if item == null:
				return null
			items.append(item)
		return "[" + ",".join(items) + "]"
	if value is Dictionary and depth <= DEPTH_MAX:
		for name: Variant in value:
			var item: Variant = _to_json(value[name], depth + 1)
			if item == null:
				return null
			items.append(_quote(str(name)) + ":" + item)
		return "{" + ",".join(items) + "}"
	push_error("An event cannot hold %s." % var_to_str(value).left(100))
	return null


# json_escape writes \v, which is not JSON, and leaves other control characters.
func _quote(text: String) -> String:
	var parts := PackedStringArray()
	for part in text.split("\v"):
		parts.append(part.json_escape())
	var quoted := "\\u000b".join(parts)
	for code in range(1, 32):
		quoted = quoted.replace(char(code), "\\u%04x" % code)
	return '"' + quoted + '"'


func _make_id() -> String:
	var bytes := Crypto.new().generate_random_bytes(16)
	bytes[6] = bytes[6] & 0x0f | 0x40
	bytes[8] = bytes[8] & 0x3f | 0x80
	var hex := bytes.hex_encode()
	return "-".join([hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4), hex.substr(16, 4), hex.substr(20)])


# The mistake in a property, without its value; empty if there is none.
func _find_fault() -> String:
	if not _matches(url, "https?://[^/?#@\\s]+(/[^?#\\s]*)?"):
		return "url must be an http or https address without credentials, query and white space."
	if not _matches(project_id, "[A-Za-z0-9._-]{1,64}"):
		return "project_id must be 1 to 64 of A-Z a-z 0-9 . _ -"
	if not _matches(key, "[!-~]+"):
		return "key must be visible ASCII characters, without spaces and line breaks."
	if not (timeout_seconds > 0 and flush_seconds >= 0): # also for NAN
		return "timeout_seconds must be positive, and flush_seconds not negative."
	if queue_events_max < 1 or queue_bytes_max < 1:
		return "The queue must hold an event."
	return ""


# Whether the pattern matches the whole text: $ would also match before a line feed at its end.
func _matches(text: String, pattern: String) -> bool:
	return RegEx.create_from_string("\\A(?:" + pattern + ")\\z").search(text) != null


func _now() -> float:
	return Time.get_ticks_msec() / 1000.0
