"""Sends events to Ingest in the background, and never blocks the program. See README.md."""

from __future__ import annotations

import atexit
import contextlib
import email.utils
import errno
import io
import json
import logging
import math
import os
import random
import re
import selectors
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

BATCH_EVENTS_MAX = 100
EVENT_BYTES_MAX = 262_144 - len(b'{"events":[]}')
BACKOFF_SECONDS_MAX = 60.0
RETRY_AFTER_SECONDS_MAX = 3600.0
UNAUTHORIZED_PAUSE_SECONDS = 300.0
EXIT_SECONDS = 5.0
RESPONSE_BYTES_MAX = 8 * 1024 * 1024
DROP_REASONS = ("queue_overflow", "rejected", "too_large", "bad_request", "closed", "damaged")
REASON_BY_STATUS = {202: "rejected", 400: "bad_request", 413: "too_large"}

_log = logging.getLogger(__name__)
_senders: weakref.WeakSet[Sender] = weakref.WeakSet()


class Stats(NamedTuple):
    """Each event counts once, in `accepted`, `duplicates`, `dropped` by reason or `queued_events`."""

    accepted: int
    duplicates: int
    dropped: dict[str, int]
    queued_events: int
    queued_bytes: int
    retries: int
    failure: str | None  # of the last attempt


@dataclass(eq=False, repr=False)
class Sender(contextlib.AbstractContextManager["Sender"]):
    """A queue of events, and a daemon thread that sends it. All methods may be called from any thread."""

    url: str
    project_id: str
    key: str | Callable[[], str]
    spool: str | os.PathLike[str] | None = None
    flush_seconds: float = 2.0
    timeout_seconds: float = 30.0
    queue_events_max: int = 10_000
    queue_bytes_max: int = 16 * 1024 * 1024
    on_drop: Callable[[str, dict[str, Any], list[dict[str, Any]]], None] | None = None
    on_retry: Callable[[str, float], None] | None = None
    pause_scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.project_id, str):
            raise TypeError("project_id must be a string")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.project_id):
            raise ValueError("project_id must be 1 to 64 of A-Z a-z 0-9 . _ -")
        if not callable(self.key):
            _check_key(self.key)
        self._endpoint = _Endpoint(self.url, self.timeout_seconds)
        self._queue = _Queue(Path(self.spool).absolute() if self.spool else None, self.project_id)
        self._changed = threading.Condition()
        self._accepted = self._duplicates = self._retries = self._removed = 0
        self._dropped = {**dict.fromkeys(DROP_REASONS, 0), "damaged": self._queue.damaged}
        self._failure: str | None = None
        _log_each(self._queue.take_warnings())
        self._deadline = math.inf
        self._refusal: str | None = None  # of events, from `close` on
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name="ingest-sender", daemon=True)
        self._thread.start()
        atexit.register(self.close, EXIT_SECONDS)
        _senders.add(self)

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, event: Mapping[str, Any]) -> str:
        """Queues an event and returns its `eventId`, which is added if it is missing. Never waits for the network.

        Raises TypeError or ValueError if it is not JSON or the `eventId` is invalid, and RuntimeError after `close`.
        """
        event = {"projectId": self.project_id, "eventId": str(uuid.uuid4()), **event}
        event_id: str = event["eventId"]
        if not _is_event_id(event_id):
            raise ValueError("eventId must be a string of 1 to 256 bytes of UTF-8 without control characters")
        line = _serialize(event)
        with self._changed:
            if self._refusal:
                raise RuntimeError(self._refusal)
            is_full = self._queue.count >= self.queue_events_max or self._queue.bytes + len(line) > self.queue_bytes_max
            reason = "too_large" if len(line) > EVENT_BYTES_MAX else "queue_overflow" if is_full else None
            if reason:
                self._dropped[reason] += 1
            elif self._queue.add(line):
                self._changed.notify_all()
            warnings = self._queue.take_warnings()
        _log_each(warnings)
        if reason:
            self._notify(self.on_drop, lambda: (reason, event, []))
        return event_id

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Waits until all present events are stored or dropped. False if they are not at the time-out or `close`."""
        with self._changed:
            until = self._removed + self._queue.count
            self._queue.seal()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._removed >= until or self._is_ended, _limit(timeout_seconds))
            return self._removed >= until

    def close(self, deadline_seconds: float | None = 10.0) -> Stats:
        """Sends the queue until the deadline, less if no retry fits. The rest stays in the spool or is dropped."""
        with self._changed:
            self._refusal = self._refusal or "the sender is closed"
            if deadline_seconds is not None:
                self._deadline = min(self._deadline, time.monotonic() + deadline_seconds)
            self._queue.seal()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_ended, _limit(self._deadline - time.monotonic()))
            self._is_ended = True
            lost = self._queue.close()
            self._dropped["closed"] += len(lost)
            self._changed.notify_all()
            warnings = self._queue.take_warnings()
        _log_each(warnings)
        atexit.unregister(self.close)
        if lost:
            _log.warning("dropped %d events that were not stored when the sender closed", len(lost))
        for line in lost:
            self._notify(self.on_drop, lambda: ("closed", json.loads(line), []))
        return self.stats()

    def stats(self) -> Stats:
        with self._changed:
            counts = self._accepted, self._duplicates, dict(self._dropped)
            return Stats(*counts, self._queue.count, self._queue.bytes, self._retries, self._failure)

    def _run(self) -> None:
        while not self._is_ended:
            with self._changed:
                events, wait_seconds = self._queue.due(self.flush_seconds)
                if not events and self._refusal:
                    self._is_ended = True
                    self._changed.notify_all()
                elif not events:
                    self._endpoint.close()  # a server may close an idle connection at any time
                    self._changed.wait(_limit(wait_seconds))
            if events:
                self._deliver(events)
        self._endpoint.close()

    def _deliver(self, events: list[bytes]) -> None:
        """Sends the same bytes until they are stored or dropped, or the sender ends."""
        body = b'{"events":[%s]}' % b",".join(events)
        backoff = 1.0
        while not self._is_ended:
            key = ""
            counts: tuple[int, int, dict[int, Any]] = 0, 0, dict.fromkeys(range(len(events)), [])
            try:
                key = _check_key(self.key() if callable(self.key) else self.key)
                headers = {"X-Project-Id": self.project_id, "X-Ingestion-Key": key, "Content-Type": "application/json"}
                status, floor, location, text = self._endpoint.post(body, headers)
                target = f" to {location}, which is not followed" if location else ""
                failure = f"{status}{target} {text.decode(errors='replace')}"
                if status == 202:
                    counts = _parse_result(text, len(events), key)
            except BaseException as error:  # also of a callable key: a later attempt may succeed
                status, floor, failure = 0, 0.0, f"{type(error).__name__}: {error}"
            if key:
                failure = failure.replace(key, "[key]")  # a server may echo it
            failure = _printable(failure[:200])
            self._failure = None if status == 202 else failure
            if status != 202:  # a server that has not read the body may take the rest of it for a request, and respond
                self._endpoint.close()
            if status in REASON_BY_STATUS:
                return self._settle(events, REASON_BY_STATUS[status], *counts)
            if status in (401, 403):
                floor, backoff = UNAUTHORIZED_PAUSE_SECONDS, 0.5
            self._pause((floor + random.uniform(0, backoff)) * self.pause_scale, failure)
            backoff = min(backoff * 2, BACKOFF_SECONDS_MAX)

    def _settle(self, events: list[bytes], reason: str, accepted: int, duplicates: int, drops: dict[int, Any]) -> None:
        """Removes the batch from the queue and counts its outcome. `drops` has the issues of events by index."""
        with self._changed:
            if self._is_ended:
                return
            self._queue.remove_first()
            self._removed += len(events)
            self._accepted += accepted
            self._duplicates += duplicates
            self._dropped[reason] += len(drops)
            self._changed.notify_all()
            warnings = self._queue.take_warnings()
        _log_each(warnings)
        if drops:
            _log.warning("dropped %d events: %s", len(drops), self._failure or reason)
        for index, issues in drops.items():
            self._notify(self.on_drop, lambda: (reason, json.loads(events[index]), issues))

    def _pause(self, seconds: float, failure: str) -> None:
        """Waits before the next attempt. Ends the sender if its deadline is before that."""
        until = time.monotonic() + seconds
        _log.warning("sending pauses for %.1f s: %s", seconds, failure)
        self._notify(self.on_retry, lambda: (failure, seconds))
        with self._changed:
            self._changed.wait_for(lambda: self._is_ended or until >= self._deadline, until - time.monotonic())
            self._is_ended = self._is_ended or until >= self._deadline
            self._retries += not self._is_ended
            self._changed.notify_all()

    def _notify(self, callback: Callable[..., None] | None, arguments: Callable[[], tuple[Any, ...]]) -> None:
        try:
            if callback:
                callback(*arguments())
        except BaseException as error:
            # sys.exit() would end only the thread of the sender, without a message
            if not isinstance(error, Exception) and threading.current_thread() is not self._thread:
                raise
            _log.exception("a callback failed")


class _Queue:
    """Batches in the order of their events. With a spool, each batch is also a file."""

    def __init__(self, spool: Path | None, name: str) -> None:
        self.count = self.bytes = self.damaged = self._number = 0
        self._batches: list[tuple[Path | None, list[bytes]]] = []
        self._spool, self._name = spool, name
        self._is_failing = False  # the last event could not be written
        self._warnings: list[str] = []
        self._begin()
        if spool and self._open(spool):
            pattern = re.compile(re.escape(name) + r"\.\d{16}\.ndjson")
            for path in sorted(path for path in spool.iterdir() if pattern.fullmatch(path.name)):
                self._load(path)

    def _open(self, spool: Path) -> bool:
        """Opens the spool. False if the disk is full: then all events are in memory only."""
        if spool.exists() and not spool.is_dir():
            raise ValueError(f"{spool}: is not a directory")
        try:
            spool.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(spool / f"{self._name}.lock")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._warnings.append(f"the spool cannot be opened, events are in memory only: {error}")
            self._spool = None
        return self._spool is not None

    def _load(self, path: Path) -> None:
        """Queues a batch of an earlier process. A last line without a line feed was not written to its end."""
        self._number = int(path.name[-23:-7])
        lines = path.read_bytes().split(b"\n")[:-1]
        self._events = list(filter(_is_object, lines))
        if damaged := len(lines) - len(self._events):
            self._warnings.append(f"dropped {damaged} damaged events in {path}")
        self.damaged += damaged
        self.count, self.bytes = self.count + len(self._events), self.bytes + sum(map(len, self._events))
        self._path: Path | None = path
        self.seal()

    def _begin(self, path: Path | None = None) -> None:
        self._path, self._events, self._bytes, self._began_at = path, list[bytes](), 0, time.monotonic()
        self._file = open(path, "xb", 0, opener=_open_private) if path else None

    def _renew(self) -> None:
        """Recreates a spool whose directory was deleted or moved, with the batches in memory."""
        if not self._spool or (_has_path(self._lock) and (not self._file or _has_path(self._file))):
            return
        self._warnings.append(f"{self._spool} was deleted: the events in memory are written to it again")
        self.seal()
        self._lock.close()
        try:
            self._open(self._spool)
        except (OSError, ValueError) as error:
            self._warnings.append(f"the spool cannot be opened, events are in memory only: {error}")
            self._spool = None
        self._restore_all()

    def _restore_all(self) -> None:
        self._batches = [(path and self._restore(path, events), events) for path, events in self._batches]

    def _restore(self, path: Path, events: list[bytes]) -> Path | None:
        """The file of a batch, which is written again if it was deleted. None if that fails."""
        if not self._spool:
            return None
        try:
            while path.exists() and not set(events).issubset(path.read_bytes().split(b"\n")):
                self._number += 1  # the file is of another sender, which had the directory meanwhile
                path = path.with_name(self._name_of(self._number))
            if not path.exists():
                with open(path, "xb", opener=_open_private) as file:
                    file.write(b"".join(line + b"\n" for line in events))
        except OSError as error:
            self._warn(error)
            return None
        return path

    def _name_of(self, number: int) -> str:
        return f"{self._name}.{number:016}.ndjson"

    def _warn(self, error: OSError) -> None:
        """Once until an event is written again."""
        if not self._is_failing:
            self._warnings.append(f"the spool cannot be written, events are in memory only: {error}")
        self._is_failing = True

    def take_warnings(self) -> list[str]:
        """Returns warnings to log after the lock is released: a handler may block, or send them as events."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def add(self, line: bytes) -> bool:
        """Adds an event. Returns whether a batch began or became due."""
        self._renew()
        if self._bytes + len(self._events) + len(line) > EVENT_BYTES_MAX:
            self.seal()
        try:
            if not self._events:
                self._number += 1
                self._begin(self._spool and self._spool / self._name_of(self._number))
            if self._file:
                if self._file.write(line + b"\n") != len(line) + 1:
                    raise OSError(f"{self._path} cannot be written to its end")
                self._is_failing = False
        except OSError as error:
            self._warn(error)
            self.seal()
        self._events.append(line)
        self._bytes += len(line)
        self.count += 1
        self.bytes += len(line)
        if len(self._events) == BATCH_EVENTS_MAX:
            self.seal()
        return len(self._events) <= 1

    def seal(self) -> None:
        """Makes all events due. Their batches do not change any more."""
        if self._file:
            self._file.close()
        if self._events:
            self._batches.append((self._path, self._events))
        elif self._path:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._begin()

    def due(self, flush_seconds: float) -> tuple[list[bytes], float | None]:
        """Returns the first batch if it is due; otherwise no events and the seconds until it is, None without any."""
        wait_seconds = self._began_at + flush_seconds - time.monotonic()
        if not self._batches and wait_seconds <= 0:
            self.seal()
        if self._batches:
            return self._batches[0][1], 0.0
        return [], wait_seconds if self._events else None

    def remove_first(self) -> None:
        self._renew()  # otherwise this might delete a file of another sender
        path, events = self._batches.pop(0)
        self.count -= len(events)
        self.bytes -= sum(map(len, events))
        if path:
            # after an error, the next process sends it again
            with contextlib.suppress(OSError):
                path.unlink()

    def close(self) -> list[bytes]:
        """Unlocks the spool. Removes and returns the events that are not in it."""
        self._renew()
        self.seal()
        if self._spool:  # single files may have been deleted too
            self._restore_all()
        lost = [line for path, events in self._batches if not path for line in events]
        self._batches = [batch for batch in self._batches if batch[0]]
        self.count, self.bytes = self.count - len(lost), self.bytes - sum(map(len, lost))
        if self._spool:
            self._lock.close()
        self._spool = None
        return lost

    def abandon(self) -> None:
        """Closes the files in a forked process, where they would keep the spool locked after the end of the parent."""
        if self._file:
            self._file.close()
        if self._spool:
            self._lock.close()


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _has_path(file: Any) -> bool:
    """Whether an open file still has its path: writes to a deleted or moved file succeed and are lost."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except OSError as error:
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))


def _log_each(warnings: list[str]) -> None:
    for warning in warnings:
        _log.warning("%s", warning)


def _lock(path: Path) -> io.BufferedWriter:
    """Keeps other senders from a spool until the file is closed, also by the end of the process."""
    file = open(path, "ab", opener=_open_private)
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        _log.warning("Windows: nothing keeps other senders from the spool")
    except OSError as error:
        file.close()
        if not isinstance(error, BlockingIOError):
            raise
        raise ValueError(f"{path.parent} is in use by another sender: each needs its own directory") from None
    return file


class _Endpoint:
    """Posts batches over one connection, kept until `close`. Follows no redirect, uses no proxy."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        scheme, host, port, path = _parse_url(url)
        self._connection = (HTTPSConnection if scheme == "https" else HTTPConnection)(host, port)
        self._path = path.rstrip("/") + "/v1/events/batch"
        self._timeout_seconds = timeout_seconds
        self.close = self._connection.close

    def abandon(self) -> None:
        """Closes the connection in a forked process. Touches no buffer: a thread of the parent may have locked it."""
        if self._connection.sock:
            os.close(self._connection.sock.detach())

    def post(self, body: bytes, headers: dict[str, str]) -> tuple[int, float, str, bytes]:
        """Returns the status, Retry-After in seconds, the target of a redirect, and the body.

        Raises OSError or HTTPException without a complete response.

        A server may close a kept connection at any time: a request on one that gets no byte of a response is sent once
        more over a new one. Bytes that arrived before a request are no response to it.
        """
        deadline = time.monotonic() + self._timeout_seconds
        if self._connection.sock and _is_readable(self._connection.sock):
            self.close()
        is_kept = self._connection.sock is not None
        self._reader: _DeadlineReader | None = None
        try:
            return self._attempt(body, headers, deadline)
        except OSError:
            self.close()
            has_response = self._reader is not None and self._reader.has_received
            if not is_kept or has_response or time.monotonic() >= deadline:
                raise
        return self._attempt(body, headers, deadline)

    def _attempt(self, body: bytes, headers: dict[str, str], deadline: float) -> tuple[int, float, str, bytes]:
        connection: Any = self._connection
        connection.response_class = lambda sock, **more: _Response(self._read(sock, deadline), **more)  # type: ignore
        connection.timeout = max(0.001, deadline - time.monotonic())
        if not connection.sock:
            connection.connect()
        connection.sock.settimeout(max(0.001, deadline - time.monotonic()))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a server may respond before it has read all
            connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        text = response.read(RESPONSE_BYTES_MAX)
        if response.length or len(text) == RESPONSE_BYTES_MAX:
            raise HTTPException(f"the body of the {response.status} is cut or too long")
        location = response.getheader("Location", "") if 300 <= response.status < 400 else ""
        return response.status, _parse_retry_after(response.getheader("Retry-After", "")), location, text

    def _read(self, sock: socket.socket, deadline: float) -> _DeadlineReader:
        self._reader = _DeadlineReader(sock, deadline)
        return self._reader


def _is_readable(sock: socket.socket) -> bool:
    """Whether bytes, or the end of the connection, have arrived."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0)) or getattr(sock, "pending", int)() > 0  # `pending` of TLS


class _Response(HTTPResponse):
    """The final response: RFC 9110, section 15.2, allows any number of interim ones (1xx) before it."""

    def begin(self) -> None:
        super().begin()
        while 100 <= self.status < 200:
            if self.status == 101:
                raise HTTPException("a 101, to a request without Upgrade")
            self.headers: Any = None  # with headers, `begin` returns at once
            super().begin()


class _DeadlineReader(socket.SocketIO):
    """Reads a response from a socket until a deadline. The time-out of a socket bounds each read only."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        super().__init__(sock, "r")
        self._socket, self._deadline = sock, deadline
        self._open = sock.makefile("rb", buffering=0)  # keeps the socket open when the connection is closed
        self.has_received = False

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readinto(self, buffer: Any) -> int | None:
        remaining_seconds = self._deadline - time.monotonic()
        if remaining_seconds <= 0:  # also for a server that sends endlessly
            raise TimeoutError("timed out")
        self._socket.settimeout(remaining_seconds)
        count = super().readinto(buffer)
        self.has_received = self.has_received or bool(count)
        return count


def _parse_url(url: str) -> tuple[str, str, int | None, str]:
    """Returns scheme, host, port and path. The errors do not contain the URL, which may hold a secret."""
    if not isinstance(url, str):
        raise TypeError("url must be a string")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("url must have a valid host and port") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("url must be http:// or https:// with a host")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("url must have no user, query or fragment")
    if re.search(r"[\0-\x20\x7f]", url) or not parts.path.isascii():
        raise ValueError("url must have no spaces or control characters, and an ASCII path (use percent-encoding)")
    return parts.scheme, host, port, parts.path


def _limit(seconds: float | None) -> float | None:
    """Clamps a time-out to what a lock accepts; None is no limit."""
    return None if seconds is None else max(0.0, min(seconds, threading.TIMEOUT_MAX))


def _printable(text: str) -> str:
    """Replaces control characters of a response by spaces: a line feed would forge a line of a log."""
    return "".join(character if character.isprintable() else " " for character in text)


def _check_key(key: object) -> str:
    """Returns a valid key. The errors do not contain it, unlike those of `http.client`."""
    if not isinstance(key, str):
        raise TypeError("key must be a string, or a function that returns one")
    if not key:
        raise ValueError("the key is empty")
    if not re.fullmatch(r"[!-~]+", key):
        raise ValueError("key must be visible ASCII characters: remove spaces and line feeds, as at the end of a file")
    return key


def _parse_retry_after(value: str) -> float:
    """Parses seconds or an HTTP date. Returns seconds, at most an hour; 0 for anything else."""
    with contextlib.suppress(TypeError, ValueError, OverflowError, IndexError):
        if value.isascii() and value.isdigit():
            return min(float(value), RETRY_AFTER_SECONDS_MAX)
        date = email.utils.parsedate_to_datetime(value)
        seconds = date.replace(tzinfo=date.tzinfo or timezone.utc).timestamp() - time.time()
        return max(0.0, min(seconds, RETRY_AFTER_SECONDS_MAX))
    return 0.0


def _is_event_id(value: Any) -> bool:
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate
        return isinstance(value, str) and re.fullmatch(rb"[^\0-\x1f\x7f]{1,256}", value.encode()) is not None
    return False


def _serialize(event: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("the event is nested too deeply") from None
    return text.encode(errors="backslashreplace")  # only lone surrogates have no UTF-8: JSON has \udc00 for them


def _is_object(line: bytes) -> bool:
    with contextlib.suppress(ValueError, RecursionError):
        return isinstance(json.loads(line.decode()), dict)
    return False


def _clean(value: Any, key: str) -> Any:
    """Removes the key and control characters from parsed JSON, in which either may have been escaped."""
    if isinstance(value, str):
        return _printable(value.replace(key, "[key]"))
    if isinstance(value, list):
        return [_clean(each, key) for each in value]
    if isinstance(value, dict):
        return {_clean(name, key): _clean(each, key) for name, each in value.items()}
    return value


def _parse_result(text: bytes, count: int, key: str) -> tuple[int, int, dict[int, Any]]:
    """Returns accepted, duplicates, and issues by index. Raises an error if the body does not cover each event."""
    with contextlib.suppress(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        body = json.loads(text)
        accepted, duplicates, rejected = body["accepted"], body["duplicates"], body["rejected"]
        issues = {each["index"]: _clean(each["issues"], key) for each in rejected if isinstance(each["issues"], list)}
        numbers = [accepted, duplicates, *issues]
        is_valid = all(type(number) is int and 0 <= number <= count for number in numbers) and count not in issues
        if is_valid and len(issues) == len(rejected) and accepted + duplicates + len(issues) == count:
            return accepted, duplicates, issues
    raise HTTPException(f"the 202 is not a result of Ingest: {text.decode(errors='replace')}")


def _after_fork() -> None:
    """Closes the senders of the parent process in its child, which has no copy of their threads."""
    for sender in _senders:
        sender._changed = threading.Condition()
        sender._deadline, sender._is_ended = 0.0, True
        sender._refusal = "the sender belongs to the process before a fork: create one in this process"
        sender._endpoint.abandon()
        sender._queue.abandon()
        sender._queue = _Queue(None, "")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
