"""What the conformance kit does not reach: the API, the spool on disk, and the life of a process."""

import asyncio
import contextlib
import functools
import http.client
import http.server
import itertools
import json
import logging
import math
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
import ingest_sender  # noqa: E402
from ingest_sender import Sender  # noqa: E402


CANNOT_WRITE = "WARNING:ingest_sender:the spool cannot be written"


class Server(http.server.ThreadingHTTPServer):
    """Stores the events of all batches, after the statuses of a script."""

    def __init__(self, *script):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = list(script)
        self.bodies = []
        self.events = []
        self.keys = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        events = json.loads(self.server.bodies[-1])["events"]
        self.server.keys.append(self.headers["X-Ingestion-Key"])
        status = self.server.script.pop(0) if self.server.script else 202
        if status == 202:
            self.server.events += events
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"accepted": len(events), "duplicates": 0, "rejected": []}).encode())

    def log_message(self, *_):
        pass


class RawServer:
    """Responds to a batch with the bytes that `respond(events, number)` returns. May close the connection then."""

    def __init__(self, respond, closes=False):
        self.respond, self.closes, self.requests, self.connections = respond, closes, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.run, args=(self.listener.accept()[0],), daemon=True).start()

    def run(self, connection):
        self.connections += 1
        with connection, connection.makefile("rb") as reader, contextlib.suppress(OSError):
            while reader.readline():
                headers = http.client.parse_headers(reader)
                events = json.loads(reader.read(int(headers["Content-Length"])))["events"]
                self.requests += 1
                parts = self.respond(events, self.requests)
                for part in [parts] if isinstance(parts, bytes) else parts:
                    connection.sendall(part)
                if self.closes:
                    return

    def close(self):
        self.listener.close()


def response(status, body=b"", head=b""):
    return b"HTTP/1.1 %d x\r\n%sContent-Length: %d\r\n\r\n%s" % (status, head, len(body), body)


def result(events):
    return response(202, json.dumps({"accepted": len(events), "duplicates": 0, "rejected": []}).encode())


class SenderTest(unittest.TestCase):
    def setUp(self):
        self.directory = self.enter(tempfile.TemporaryDirectory())
        self.spool = Path(self.directory, "spool")

    def enter(self, context):
        self.addCleanup(context.__exit__, None, None, None)
        return context.__enter__()

    def serve(self, *script):
        server = self.enter(Server(*script))
        self.addCleanup(server.shutdown)
        return server

    def serve_raw(self, respond, **options):
        return self.enter(contextlib.closing(RawServer(respond, **options)))

    def open(self, server, key="ik_key", **options):
        sender = Sender(server.url, "demo", key, **{"flush_seconds": 0.01, "pause_scale": 0.001, **options})
        self.addCleanup(sender.close, 0)
        return sender

    def start_program(self, text, *args, prefix=()):
        program = f"import sys, os\nfrom ingest_sender import Sender\n{text}"
        path = str(Path(__file__).parent.parent / "src")
        command = [*prefix, sys.executable, "-c", program, *args]
        return self.enter(
            subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": path},
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )

    def run_program(self, text, *args, prefix=()):
        started = self.start_program(text, *args, prefix=prefix)
        stdout, stderr = started.communicate()
        return subprocess.CompletedProcess(started.args, started.returncode, stdout, stderr)

    def test_an_event_gets_ids_and_keeps_its_members(self):
        server = self.serve()
        with self.open(server) as sender:
            event_id = sender.send({"n": 2**70, "text": "ä\u2028"})
            sender.send({"eventId": "own"})
        self.assertEqual(server.events[0], {"projectId": "demo", "eventId": event_id, "n": 2**70, "text": "ä\u2028"})
        self.assertEqual(server.events[1], {"projectId": "demo", "eventId": "own"})
        self.assertEqual(sender.stats().accepted, 2)

    def test_what_is_not_an_event_raises(self):
        with self.open(self.serve()) as sender:
            for event in [["a"], {"eventId": 5}, {"eventId": ""}, {"eventId": "é" * 129}, {"eventId": "\n"}]:
                self.assertRaises((TypeError, ValueError), sender.send, event)
        self.assertEqual(sender.stats().queued_events, 0)
        self.assertRaises(RuntimeError, sender.send, {})

    def test_unusual_values_are_sent_as_the_table_in_the_readme_says(self):
        deep, itself = functools.reduce(lambda value, _: [value], range(100_000), 1), []
        itself.append(itself)
        texts = {
            "\ud800\ud800a": rb'"\ud800\ud800a"',
            "\ud83d\ude00": rb'"\ud83d\ude00"',
            "😀": '"😀"'.encode(),
            -0.0: b"-0.0",
            2**53 + 1: b"9007199254740993",
            None: b"null",
        }
        server = self.serve()
        with self.open(server, flush_seconds=60) as sender:
            for value in texts:
                sender.send({"value": value})
            sender.send({"value": []})
            sender.send({"value": {}})
            sender.send({"value": functools.reduce(lambda value, _: [value], range(40), 1)})
            for value in [math.nan, math.inf, 1e400, deep, itself, datetime.now(), b"bytes", {1}]:
                self.assertRaises((TypeError, ValueError), sender.send, {"value": value})
            self.assertRaises(TypeError, sender.send, None)
            self.assertRaisesRegex(ValueError, "eventId must be", sender.send, {"eventId": "a\ud800"})
        values = [event.partition(b'"value":')[2] for event in server.bodies[0].split(b"},{")]
        self.assertEqual(values, [*texts.values(), b"[]", b"{}", b"[" * 40 + b"1" + b"]" * 40 + b"}]}"])

    def test_invalid_options_raise(self):
        urls = ["ingest.secret", "ftp://secret", "http://", "http://a?secret", "http://a/#secret", "http://a/secret\n"]
        urls += [
            "http://secret:b@a",
            "http://secret@a",
            "http://a/ secret",
            "http://[secret",
            "http://a:secret",
            "http://a:99999",
        ]
        urls += ["http://a/secret/é", None]
        for url in urls:
            with self.assertRaisesRegex((TypeError, ValueError), "^url must") as caught:
                Sender(url, "demo", "ik_key")
            self.assertNotIn("secret", str(caught.exception))
        for project_id in ["../demo", "demo\n", "", "a" * 65]:
            self.assertRaisesRegex(ValueError, "^project_id must", Sender, "http://127.0.0.1", project_id, "ik_key")
        self.assertRaisesRegex(TypeError, "^project_id must", Sender, "http://127.0.0.1", None, "ik_key")
        self.assertRaisesRegex(ValueError, "^the key is empty$", Sender, "http://127.0.0.1", "demo", "")
        for key in ["ik_secret\n", " ik_secret", "ik_sécret", "ik_secret\0", b"ik_secret", None]:
            with self.assertRaisesRegex((TypeError, ValueError), "^key must") as caught:
                Sender("http://127.0.0.1", "demo", key)
            self.assertNotIn("ik_", str(caught.exception))

    def test_a_key_is_never_printed(self):
        keys = iter(["ik_secret\n", "ik_secret€", "ik_secret"])
        failures = []
        server = self.serve_raw(
            lambda events, number: response(500, b"headers: ik_secret") if number == 1 else result(events)
        )
        with self.assertLogs("ingest_sender") as logged:
            sender = self.open(
                server, lambda: next(keys, "ik_secret"), on_retry=lambda failure, _: failures.append(failure)
            )
            sender.send({})
            sender.close()
        self.assertEqual(failures[-1], "500 headers: [key]")
        self.assertEqual([failure.partition(" must")[0] for failure in failures[:-1]], ["ValueError: key"] * 2)
        self.assertNotIn("ik_secret", f"{failures} {logged.output} {sender!r} {sender.stats()}")

    def test_no_callback_gets_a_key_or_a_control_character_of_a_response(self):
        texts = b'"/\\n\\u001b":"of ik_secret","message":"of \\u0069k_secret\\r\\nERROR forged\\u001b[31m"'
        issues = b'{"accepted":0,"duplicates":0,"rejected":[{"index":0,"issues":[{%s}]}]}' % texts
        dropped = []
        server = self.serve_raw(lambda events, number: response(202, issues))
        sender = self.open(server, "ik_secret", on_drop=lambda *drop: dropped.append(drop))
        sender.send({})
        sender.close()
        self.assertEqual(
            [drop[2] for drop in dropped], [[{"/  ": "of [key]", "message": "of [key]  ERROR forged [31m"}]]
        )

    def test_no_log_gets_a_control_character_of_a_response(self):
        body = b"no\r\nERROR forged\x1b[31m\xc2\x9b31m\xe2\x80\xa8x"
        failures = []
        server = self.serve_raw(
            lambda events, number: [response(500, body), b"\x1b[31m no HTTP\r\n", response(400, body)][number - 1],
            closes=True,
        )
        with self.assertLogs("ingest_sender") as logged:
            sender = self.open(server, on_retry=lambda failure, _: failures.append(failure))
            sender.send({})
            sender.close()
        self.assertEqual(failures, ["500 no  ERROR forged [31m 31m x", "BadStatusLine:  [31m no HTTP  "])
        self.assertEqual(len(logged.output), 3)
        self.assertTrue("".join(logged.output).isprintable(), logged.output)

    def test_a_failure_says_what_the_response_was(self):
        failures = []
        responses = [
            response(202, b"<html>Sign in</html>"),
            response(202, b'{"duplicates":1,"rejected":[]}'),
            response(307, b"", b"Location: http://other/\r\n"),
        ]
        server = self.serve_raw(lambda events, number: (responses + [result(events)])[number - 1])
        with self.open(server, on_retry=lambda failure, _: failures.append(failure)) as sender:
            sender.send({})
        self.assertEqual(
            failures,
            [
                "HTTPException: the 202 is not a result of Ingest: <html>Sign in</html>",
                'HTTPException: the 202 is not a result of Ingest: {"duplicates":1,"rejected":[]}',
                "307 to http://other/, which is not followed ",
            ],
        )

    def test_informational_responses_are_not_the_response(self):
        hints = b"HTTP/1.1 102 Processing\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3
        seen = []

        def respond(events, number):
            seen.append(events[0]["n"])
            return hints + (response(503) if number == 2 else result(events))

        with self.open(self.serve_raw(respond), flush_seconds=60) as sender:
            for n in range(300):
                sender.send({"n": n})
        self.assertEqual(seen, [0, 100, 100, 200])
        self.assertEqual((sender.stats().accepted, sender.stats().retries), (300, 1))

    def test_informational_responses_without_an_end_time_out(self):
        failures = []
        server = self.serve_raw(
            lambda events, number: itertools.repeat(b"HTTP/1.1 103 x\r\n\r\n") if number == 1 else result(events)
        )
        with self.open(server, timeout_seconds=0.2, on_retry=lambda failure, _: failures.append(failure)) as sender:
            sender.send({})
            self.assertTrue(sender.flush())
        self.assertIn("timed out", failures[0])

    def test_a_protocol_that_was_not_asked_for_is_a_failure(self):
        failures = []
        server = self.serve_raw(
            lambda events, number: b"HTTP/1.1 101 x\r\nUpgrade: x\r\n\r\nx" if number == 1 else result(events)
        )
        with self.open(server, on_retry=lambda failure, _: failures.append(failure)) as sender:
            sender.send({})
        self.assertEqual((sender.stats().accepted, len(failures)), (1, 1))
        self.assertIn("101", failures[0])

    def test_a_connection_that_the_server_has_closed_costs_no_attempt(self):
        failures = []
        server = self.serve_raw(
            lambda events, number: response(503) if number in (3, 4) else result(events), closes=True
        )
        with self.open(server, flush_seconds=60, on_retry=lambda failure, _: failures.append(failure)) as sender:
            for n in range(300):
                sender.send({"n": n})
        self.assertEqual((sender.stats().accepted, failures), (300, ["503 ", "503 "]))

    def test_a_second_response_to_a_dropped_batch_is_not_that_to_the_next(self):
        def respond(events, number):
            if number == 1:
                return response(413)  # before it has read the body, as a proxy does
            return response(400) if server.connections == 1 else result(events)

        server = self.serve_raw(respond)
        with self.open(server, flush_seconds=60) as sender:
            for n in range(200):
                sender.send({"n": n})
        self.assertEqual(sender.stats().accepted, 100)
        self.assertEqual(sender.stats().dropped, {**dict.fromkeys(ingest_sender.DROP_REASONS, 0), "too_large": 100})

    def test_bytes_that_arrive_before_a_request_are_no_response_to_it(self):
        received, sent = threading.Event(), threading.Event()

        def wait(*_):
            received.set()
            sent.wait()

        def respond(events, number):
            if number > 1:
                yield result(events)
                return
            rejected = [{"index": 0, "eventId": None, "issues": []}]
            yield response(202, json.dumps({"accepted": 99, "duplicates": 0, "rejected": rejected}).encode())
            received.wait()
            yield response(400)
            sent.set()

        with self.open(self.serve_raw(respond), flush_seconds=60, on_drop=wait) as sender:
            for n in range(200):
                sender.send({"n": n})
        self.assertEqual((sender.stats().accepted, sender.stats().dropped["bad_request"]), (199, 0))

    def test_a_response_that_is_cut_is_a_failure(self):
        failures = []
        server = self.serve_raw(
            lambda events, number: result(events)[: [-5, 9, 0, None][number - 1]] if number < 4 else result(events),
            closes=True,
        )
        with self.open(server, on_retry=lambda failure, _: failures.append(failure)) as sender:
            sender.send({})
        self.assertEqual((sender.stats().accepted, len(failures), server.requests), (1, 3, 4))

    def test_a_relative_spool_does_not_follow_the_working_directory(self):
        changed = self.run_program(
            "os.chdir(sys.argv[1])\n"
            "sender = Sender('http://127.0.0.1:1', 'demo', 'ik_key', spool='spool', flush_seconds=0.001)\n"
            "sender.send({'n': 1}); sender.flush(0.05); os.chdir('/')\n"
            "for n in range(3): sender.send({'n': n}); sender.flush(0.01)\n"
            "print(sender.close(0).queued_events)",
            self.directory,
        )
        self.assertEqual(changed.stdout, "4\n", changed.stderr)
        self.assertNotIn("in memory only", changed.stderr)
        server = self.serve()
        self.open(server, spool=self.spool).close()
        self.assertEqual([event["n"] for event in server.events], [1, 0, 1, 2])

    def test_a_key_function_is_called_for_each_attempt(self):
        server = self.serve(503)
        keys = iter(["ik_1", "ik_2"])

        def key():
            return next(keys) if len(failures) else failures.append("none yet") or 1 / 0

        failures = []
        with Sender(server.url, "demo", key, pause_scale=0.001) as sender:
            sender.send({})
        self.assertEqual(server.keys, ["ik_1", "ik_2"])

    def test_an_error_of_a_callback_is_logged(self):
        with self.assertLogs("ingest_sender", "ERROR"), self.open(self.serve(400), on_drop=lambda *_: 1 / 0) as sender:
            sender.send({})
            self.assertTrue(sender.flush())
        self.assertEqual(sender.stats().dropped["bad_request"], 1)

    def test_a_callback_that_exits_does_not_end_the_thread(self):
        calls = []

        def key():
            calls.append("key")
            return sys.exit() if len(calls) == 1 else "ik_key"

        sender = self.open(self.serve(400, 503), key, on_drop=lambda *_: sys.exit(), on_retry=lambda *_: sys.exit())
        with self.assertLogs("ingest_sender", "ERROR") as logged:
            sender.send({})
            self.assertTrue(sender.flush(20))
            sender.send({})
            self.assertTrue(sender.flush(20))
        self.assertEqual((sender.stats().accepted, sender.stats().dropped["bad_request"]), (1, 1))
        self.assertEqual([record.getMessage() for record in logged.records], ["a callback failed"] * 3)

    def test_a_callback_that_exits_ends_the_program_that_called_send(self):
        sender = self.open(self.serve(), queue_events_max=0, on_drop=lambda *_: sys.exit())
        self.assertRaises(SystemExit, sender.send, {})

    def test_no_time_out_and_an_infinite_one_wait_for_the_end(self):
        for seconds in [None, math.inf, 1e300]:
            server = self.serve(503)
            sender = self.open(server, flush_seconds=math.inf)
            sender.send({})
            self.assertTrue(sender.flush(seconds))
            sender.send({})
            self.assertEqual(sender.close(seconds).accepted, 2)
            self.assertRaisesRegex(RuntimeError, "closed", sender.send, {})

    def test_flush_returns_false_for_events_that_are_not_stored(self):
        sender = self.open(self.serve(401), pause_scale=1)
        sender.send({})
        self.assertFalse(sender.flush(0.01))

    def test_too_large_and_overflowing_events_are_dropped_by_send(self):
        drops = []
        sender = self.open(
            self.serve(401),
            flush_seconds=60,
            queue_events_max=1,
            on_drop=lambda reason, event, _: drops.append((reason, event["eventId"])),
        )
        sender.send({"eventId": "a"})
        sender.send({"eventId": "b", "text": "x" * 262_144})
        sender.send({"eventId": "c"})
        self.assertEqual(drops, [("too_large", "b"), ("queue_overflow", "c")])
        sender.close(0)
        self.assertEqual(drops[2:], [("closed", "a")])

    def test_retry_after_is_seconds_or_a_date_up_to_an_hour(self):
        at = datetime.now(timezone.utc) + timedelta(seconds=100)
        parse = ingest_sender._parse_retry_after
        self.assertAlmostEqual(parse(format_datetime(at, usegmt=True)), 100, delta=2)
        self.assertAlmostEqual(parse(at.strftime("%a %b %d %H:%M:%S %Y")), 100, delta=2)
        for value, seconds in [("0", 0), ("7", 7), ("7200", 3600), ("9" * 5000, 3600)]:
            self.assertEqual(parse(value), seconds)
        for value in ["", "-1", "1.5", "soon", "٣", "Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 99 Nov 2094 08:49:37 GMT"]:
            self.assertEqual(parse(value), 0, value)

    def test_a_killed_process_loses_nothing_that_was_sent(self):
        server = self.serve()
        killed = self.run_program(
            "sender = Sender('http://127.0.0.1:1', 'demo', 'ik_key', spool=sys.argv[1], flush_seconds=0.001)\n"
            "for n in range(250): print(sender.send({'n': n}), flush=True)\n"
            "os.kill(os.getpid(), 9)",
            str(self.spool),
        )
        self.assertEqual(killed.returncode, -9)
        with self.open(server, spool=self.spool):
            pass
        self.assertEqual([event["eventId"] for event in server.events], killed.stdout.split())
        self.assertEqual(os.listdir(self.spool), ["demo.lock"])

    def test_events_that_close_leaves_stay_in_the_spool(self):
        sender = self.open(self.serve(401), spool=self.spool)
        ids = [sender.send({}) for _ in range(3)]
        self.assertEqual(sender.close(0).queued_events, 3)
        server = self.serve()
        with self.open(server, spool=self.spool):
            pass
        self.assertEqual([event["eventId"] for event in server.events], ids)

    def test_damaged_lines_of_the_spool_cost_their_events(self):
        self.spool.mkdir()
        first, second = (self.spool / f"demo.000000000000000{n}.ndjson" for n in (1, 2))
        first.write_bytes(b'{"eventId":"a"}\n\0\0\n{"eventId":"b"}\n"text"\n{"eventId":"c"}\n{"eventId":"trunc')
        second.write_bytes(b"\xff\n")
        server = self.serve()
        with self.open(server, spool=self.spool) as sender:
            pass
        self.assertEqual([event["eventId"] for event in server.events], ["a", "b", "c"])
        self.assertEqual(sender.stats().dropped["damaged"], 3)
        self.assertEqual(os.listdir(self.spool), ["demo.lock"])

    def test_a_spool_has_one_sender_of_a_project(self):
        server = self.serve()
        sender = self.open(server, spool=self.spool)
        self.assertRaises(ValueError, self.open, server, spool=self.spool)
        Sender(server.url, "other", "ik_key", spool=self.spool).close()
        sender.close()
        self.open(server, spool=self.spool).close()

    def test_events_are_in_memory_while_the_disk_is_full(self):
        server = self.serve()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        with self.open(server, spool=self.spool, flush_seconds=60) as sender:
            ids = [sender.send({"n": 1})]
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
            try:
                ids += [sender.send({"n": n}) for n in range(3)]
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual([event["eventId"] for event in server.events], ids)
        self.assertEqual(os.listdir(self.spool), ["demo.lock"])

    def test_a_full_disk_is_one_warning_until_it_has_room_again(self):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        sender = self.open(self.serve(), spool=self.spool, flush_seconds=60)
        with self.assertLogs("ingest_sender", "WARNING") as logged:
            for _ in range(2):
                resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
                try:
                    for n in range(250):
                        sender.send({"n": n})
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
                for _ in range(100):
                    sender.send({})
        self.assertEqual([entry.partition(", ")[0] for entry in logged.output], [CANNOT_WRITE] * 2)

    def test_a_spool_that_was_deleted_is_made_again(self):
        sender = self.open(self.serve(401), spool=self.spool, flush_seconds=60)
        sender.send({"n": 1})
        shutil.rmtree(self.spool)
        self.spool.mkdir()
        # another sender had the directory meanwhile
        other = self.spool / "demo.0000000000000001.ndjson"
        other.write_bytes(b'{"eventId":"a","n":0}\n')
        with self.assertLogs("ingest_sender", "WARNING") as logged:
            sender.send({"n": 2})
        self.assertIn("spool was deleted: the events in memory are written to it again", logged.output[0])
        self.assertEqual(sender.close(0).queued_events, 2)
        self.assertEqual(other.read_bytes(), b'{"eventId":"a","n":0}\n')
        server = self.serve()
        self.open(server, spool=self.spool).close()
        self.assertEqual([event["n"] for event in server.events], [0, 1, 2])

    def test_no_file_of_another_sender_is_deleted(self):
        sender = self.open(self.serve(), spool=self.spool, flush_seconds=60)
        sender.send({})
        shutil.rmtree(self.spool)
        self.spool.mkdir()
        other = self.spool / "demo.0000000000000001.ndjson"
        other.write_bytes(b'{"eventId":"a"}\n')
        sender.close()
        self.assertEqual(list(self.spool.glob("*.ndjson")), [other])

    def test_a_handler_of_the_logger_may_send(self):
        server = self.serve()
        sender = self.open(server, spool=self.spool, flush_seconds=60)
        handler = logging.Handler()
        has_sent = threading.Event()

        def emit(record):
            sender.send({"message": record.getMessage()})
            has_sent.set()

        handler.emit = emit
        logger = logging.getLogger("ingest_sender")
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        sender.send({})
        shutil.rmtree(self.spool)
        sender.send({})
        # the thread that sends may be the one that logs
        self.assertTrue(has_sent.wait(10))
        sender.close()
        self.assertEqual(len(server.events), 3)
        self.assertEqual(len([event for event in server.events if "was deleted" in event.get("message", "")]), 1)

    def test_no_lock_is_held_for_a_handler_of_the_logger(self):
        sender = self.open(self.serve(), spool=self.spool, flush_seconds=60)
        handler = logging.Handler()
        blocked = []

        def emit(record):
            other = threading.Thread(target=sender.stats, daemon=True)
            other.start()
            other.join(5)
            blocked.append(other.is_alive())

        handler.emit = emit
        logger = logging.getLogger("ingest_sender")
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        sender.send({})
        shutil.rmtree(self.spool)
        sender.close()
        self.assertEqual(blocked, [False])

    def test_an_event_whose_file_cannot_be_made_again_is_not_kept(self):
        sender = self.open(self.serve(401), spool=self.spool, flush_seconds=60)
        sender.send({"n": 1})
        shutil.rmtree(self.spool)
        self.spool.write_text("no directory")
        stats = sender.close(0)
        self.assertEqual((stats.queued_events, stats.dropped["closed"]), (0, 1))

    def test_events_are_in_memory_when_the_disk_is_full_at_the_start(self):
        # in a namespace where no file can be made in the directory
        script = 'mount -t tmpfs -o nr_inodes=1 tmpfs "$0" && exec "$@"'
        command = ["unshare", "-Urm", "sh", "-c", script, self.directory]
        try:
            subprocess.run([*command, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no full disk can be mounted here: {error}")
        server = self.serve()
        full = self.run_program(
            "with Sender(sys.argv[1], 'demo', 'ik_key', spool=sys.argv[2]) as sender: sender.send({'n': 1})",
            server.url,
            str(self.spool),
            prefix=command,
        )
        self.assertEqual([event["n"] for event in server.events], [1], full.stderr)
        self.assertRegex(full.stderr, "^the spool cannot be opened, events are in memory only: .*No space left")

    def test_a_spool_that_is_a_file_raises(self):
        self.spool.write_text("")
        with self.assertRaisesRegex(ValueError, "spool: is not a directory$"):
            self.open(self.serve(), spool=self.spool)

    @unittest.skipUnless(os.name == "posix", "Windows has no modes")
    def test_files_of_the_spool_are_private(self):
        previous = os.umask(0)
        self.addCleanup(os.umask, previous)
        sender = self.open(self.serve(401), spool=self.spool, flush_seconds=60)
        sender.send({})
        modes = [path.stat().st_mode & 0o777 for path in [self.spool, *self.spool.iterdir()]]
        self.assertEqual(modes, [0o700, 0o600, 0o600])

    def test_a_program_that_ends_sends_its_queue(self):
        server = self.serve()
        ended = self.run_program("Sender(sys.argv[1], 'demo', 'ik_key', flush_seconds=60).send({'n': 1})", server.url)
        self.assertEqual(ended.stderr, "")
        self.assertEqual([event["n"] for event in server.events], [1])

    def test_a_forked_process_has_a_closed_sender_and_may_start_another(self):
        server = self.serve()
        forked = self.run_program(
            "sender = Sender(sys.argv[1], 'demo', 'ik_key', spool=sys.argv[2], flush_seconds=60)\n"
            "sender.send({'n': 1})\n"
            "if os.fork() == 0:\n"
            "    try: sender.send({'n': 2})\n"
            "    except RuntimeError as error: print('before a fork' in str(error), sender.close().queued_events)\n"
            "    try: Sender(sys.argv[1], 'demo', 'ik_key', spool=sys.argv[2])\n"
            "    except ValueError as error: print('in use' in str(error))\n"
            "    with Sender(sys.argv[1], 'demo', 'ik_key', spool=sys.argv[2] + '2') as own: own.send({'n': 3})\n"
            "else: os.wait(); sender.send({'n': 4})",
            server.url,
            str(self.spool),
        )
        self.assertEqual(forked.stdout, "True 0\nTrue\n", forked.stderr)
        self.assertEqual([event["n"] for event in server.events], [3, 1, 4])

    def test_a_forked_process_holds_no_connection_and_no_lock(self):
        listener = self.enter(socket.create_server(("127.0.0.1", 0)))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        program = self.start_program(
            "sender = Sender(sys.argv[1], 'demo', 'ik_key', spool=sys.argv[2], flush_seconds=0.01)\n"
            "sender.send({})\n"
            "sys.stdin.readline()\n"
            "if os.fork() == 0:\n"
            "    print('forked', flush=True)\n"
            "    sys.stdin.read(); os._exit(0)\n"
            "sender.close()\n"
            "os._exit(0)",
            url,
            str(self.spool),
        )
        connection = self.enter(listener.accept()[0])
        connection.settimeout(30)
        connection.recv(1)
        program.stdin.write("fork\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), "forked\n")
        connection.sendall(result([{}]))
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65536):  # until all processes have closed it, or the time-out
                pass
        self.assertEqual(program.wait(), 0)
        self.open(self.serve(), spool=self.spool).close()
        program.stdin.close()

    def test_a_signal_handler_that_exits_sends_the_queue(self):
        server = self.serve()
        ended = self.run_program(
            "import signal\n"
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
            "Sender(sys.argv[1], 'demo', 'ik_key', flush_seconds=60).send({'n': 1})\n"
            "os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
            server.url,
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual([event["n"] for event in server.events], [1])

    def test_an_event_loop_goes_on_during_a_flush(self):
        received, release = threading.Event(), threading.Event()

        def respond(events, _):
            received.set()
            release.wait()
            return result(events)

        sender = self.open(self.serve_raw(respond), flush_seconds=60)

        async def program():
            sender.send({})
            flushed = asyncio.create_task(asyncio.to_thread(sender.flush))
            await asyncio.to_thread(received.wait)
            sender.send({})
            release.set()
            self.assertTrue(await flushed)
            return await asyncio.to_thread(sender.close)

        self.assertEqual(asyncio.run(program()).accepted, 2)


if __name__ == "__main__":
    unittest.main()
