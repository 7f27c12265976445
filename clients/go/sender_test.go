package sender

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// What the conformance kit does not reach: the API, damaged spools, and goroutines.

// A server stores the events of all batches, after the statuses of a script.
type server struct {
	*httptest.Server
	script []int
	events []map[string]any
	keys   []string
}

func serve(t *testing.T, script ...int) *server {
	s := &server{script: script}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Events []map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		s.keys = append(s.keys, r.Header.Get("X-Ingestion-Key"))
		if len(s.script) > 0 {
			w.WriteHeader(s.script[0])
			s.script = s.script[1:]
			return
		}
		s.events = append(s.events, body.Events...)
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"accepted":%d,"duplicates":0,"rejected":[]}`, len(body.Events))
	}))
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, s *server, change func(*Options)) *Sender {
	t.Helper()
	return openURL(t, s.URL, change)
}

func openURL(t *testing.T, url string, change func(*Options)) *Sender {
	t.Helper()
	options := DefaultOptions(url, "demo", "ik_key")
	options.FlushInterval, options.PauseScale, options.Logf = time.Millisecond, 0.001, t.Logf
	if change != nil {
		change(&options)
	}
	sender, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func send(t *testing.T, s *Sender, event any) string {
	t.Helper()
	id, err := s.Send(event)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func equal(t *testing.T, actual, expected any) {
	t.Helper()
	if !reflect.DeepEqual(actual, expected) {
		t.Errorf("%v, not %v", actual, expected)
	}
}

func ids(s *server) (ids []string) {
	for _, event := range s.events {
		ids = append(ids, event["eventId"].(string))
	}
	return ids
}

func TestAnEventGetsIdsAndKeepsItsMembers(t *testing.T) {
	s := serve(t)
	sender := open(t, s, nil)
	id := send(t, sender, struct {
		Type string `json:"type"`
	}{"a"})
	send(t, sender, json.RawMessage(`{"eventId":"own"}`))
	equal(t, sender.Close(context.Background()).Accepted, 2)
	equal(t, s.events, []map[string]any{
		{"projectId": "demo", "eventId": id, "type": "a"}, {"projectId": "demo", "eventId": "own"},
	})
}

func TestAnInvalidEventIsAnError(t *testing.T) {
	sender := open(t, serve(t), nil)
	invalid := []any{nil, 1, []int{}, make(chan int), json.RawMessage("{\"a\":\"\xff\"}"), map[string]any{"eventId": 5},
		map[string]any{"eventId": ""}, map[string]any{"eventId": "\n"}, map[string]any{"eventId": strings.Repeat("é", 129)}}
	for _, event := range invalid {
		if _, err := sender.Send(event); err == nil {
			t.Errorf("no error for %v", event)
		}
	}
	sender.Close(context.Background())
	_, err := sender.Send(map[string]any{})
	equal(t, err, ErrClosed)
}

func TestUnusualValuesAreSentAsTheTableInTheReadmeSays(t *testing.T) {
	type cycle struct{ Next *cycle }
	itself := &cycle{}
	itself.Next = itself
	nested := func(levels int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))
	}
	sender := open(t, serve(t), nil)
	defer sender.Close(context.Background())
	for _, value := range []any{math.NaN(), math.Inf(1), nested(100_000), itself} {
		if _, err := sender.Send(map[string]any{"value": value}); err == nil {
			t.Errorf("no error for %.20v", value)
		}
	}
	for _, event := range []any{
		nil, map[string]any(nil), json.RawMessage(`{"eventId":"a\ud800"}`), map[string]any{"eventId": "a\xed\xa0\x80"},
	} {
		if _, err := sender.Send(event); err == nil {
			t.Errorf("no error for %s", event)
		}
	}
	for _, each := range []struct {
		value any
		text  string
	}{
		{"\xed\xa0\x80", `"\ufffd\ufffd\ufffd"`},
		{json.RawMessage(`"\ud800"`), `"\ud800"`},
		{math.Copysign(0, -1), `-0`},
		{json.RawMessage(`1e400`), `1e400`},
		{1<<53 + 1, `9007199254740993`},
		{nested(40), string(nested(40))},
		{time.Date(2026, 11, 20, 1, 2, 3, 4e8, time.UTC), `"2026-11-20T01:02:03.4Z"`},
		{[]byte("bytes"), `"Ynl0ZXM="`},
		{map[string]struct{}{"a": {}}, `{"a":{}}`},
		{map[string]any(nil), `null`},
		{[]int{}, `[]`},
		{map[string]any{}, `{}`},
	} {
		line, _, err := encode(map[string]any{"value": each.value}, "demo")
		equal(t, err, nil)
		equal(t, string(parseObject(line)["value"]), each.text)
	}
}

func TestInvalidOptionsAreAnErrorWithoutTheirValue(t *testing.T) {
	invalid := func(url, project, key, expected string) {
		t.Helper()
		_, err := New(DefaultOptions(url, project, key))
		if err == nil || !strings.HasPrefix(err.Error(), expected) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v for %q %q %q", err, url, project, key)
		}
	}
	for _, url := range []string{
		"ingest.secret", "ftp://secret", "httpx://secret", "http://", "http://a?secret", "http://a#secret", "http://secret b",
		"http://secret:b@a", "http://secret@a", "http://a:secret", "http://a:99999", "http://a/secret\n", "",
	} {
		invalid(url, "demo", "ik_key", "sender: the URL must")
	}
	for _, project := range []string{"../secret", "secret\n", ""} {
		invalid("http://127.0.0.1", project, "ik_key", "sender: the project must")
	}
	invalid("http://127.0.0.1", "demo", "", "sender: the key is empty")
	for _, key := range []string{"ik_secret\n", " ik_secret", "ik_sécret", "ik_secret\x00"} {
		invalid("http://127.0.0.1", "demo", key, "sender: the key must")
	}
	options := DefaultOptions("http://127.0.0.1", "demo", "")
	options.Key = nil
	_, err := New(options)
	equal(t, err != nil, true)
}

func TestZeroValuesOfOptionsAreTheDefaults(t *testing.T) {
	s := serve(t, 400)
	options := Options{URL: s.URL, ProjectID: "demo", Key: func() string { return "ik_key" }}
	sender, err := New(options)
	equal(t, err, nil)
	send(t, sender, map[string]any{})
	equal(t, sender.Close(context.Background()).Dropped, map[string]int{"bad_request": 1})
	filled, expected := options.withDefaults(), DefaultOptions(s.URL, "demo", "ik_key")
	equal(t, []any{filled.FlushInterval, filled.Timeout, filled.QueueEventsMax, filled.QueueBytesMax, filled.PauseScale},
		[]any{2 * time.Second, 30 * time.Second, 10_000, 16 << 20, 1.0})
	equal(t, expected.Transport != nil && expected.Logf != nil && expected.OnDrop != nil, true)
}

func TestCloseDoesNotWaitForAKeyThatBlocks(t *testing.T) {
	calls, release := make(chan bool, 9), make(chan bool)
	defer close(release)
	sender := open(t, serve(t), func(options *Options) {
		options.Key = func() string {
			if calls <- true; len(calls) > 1 {
				<-release
			}
			return "ik_key"
		}
	})
	send(t, sender, map[string]any{})
	for len(calls) < 2 {
		runtime.Gosched()
	}
	closing := make(chan Stats)
	go func() { closing <- sender.Close(closed()) }()
	select {
	case stats := <-closing:
		equal(t, stats.Dropped, map[string]int{"closed": 1})
	case <-time.After(20 * time.Second):
		t.Error("Close waits for Key")
	}
}

func TestTheKeyIsReadForEachAttempt(t *testing.T) {
	s := serve(t, 503)
	keys := []string{"checked-by-New", "ik_1", "ik_2"}
	sender := open(t, s, func(options *Options) {
		options.Key = func() (key string) {
			key, keys = keys[0], keys[1:]
			return key
		}
	})
	send(t, sender, map[string]any{})
	equal(t, sender.Close(context.Background()).Retries, 1)
	equal(t, s.keys, []string{"ik_1", "ik_2"})
}

func TestTheKeyIsInNoError(t *testing.T) {
	var failures []string
	keys := []string{"", "ik_secret", "ik_secret\n", "ik_secret"}
	s := serveRaw(t, func(events, number int) (response string, closes bool) {
		if number == 1 {
			return respond(500, "headers: ik_secret"), false
		} else if number == 2 {
			return "ik_secret\r\n\r\n", true
		}
		return accept(events), false
	})
	sender := openURL(t, s.url, func(options *Options) {
		options.Key = func() string {
			if len(keys) > 1 {
				keys = keys[1:]
			}
			return keys[0]
		}
		options.Logf = func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	})
	send(t, sender, map[string]any{})
	equal(t, sender.Close(context.Background()).Accepted, 1)
	equal(t, len(failures), 3)
	equal(t, strings.Contains(fmt.Sprint(failures), "secret"), false)
	equal(t, strings.HasSuffix(failures[1], "500 headers: [key]"), true)
}

func TestTheKeyIsInNoCallback(t *testing.T) {
	s := serveRaw(t, func(events, number int) (response string, closes bool) {
		return respond(202, `{"accepted":0,"duplicates":0,"rejected":[{"index":0,"issues":[{"message":"of ik_secret"}]}]}`), false
	})
	var dropped string
	sender := openURL(t, s.url, func(options *Options) {
		options.Key = func() string { return "ik_secret" }
		options.OnDrop = func(_ string, _, issues json.RawMessage) { dropped = string(issues) }
	})
	send(t, sender, map[string]any{})
	sender.Close(context.Background())
	equal(t, dropped, `[{"message":"of [key]"}]`)
}

// A rawServer sends the bytes of a response, and then closes the connection if asked.
type rawServer struct {
	url                   string
	requests, connections int // once the sender is closed, or in respond
}

func serveRaw(t *testing.T, respond func(events, number int) (response string, closes bool)) *rawServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &rawServer{url: "http://" + listener.Addr().String()}
	var mu sync.Mutex
	serve := func(connection net.Conn) {
		defer connection.Close()
		mu.Lock()
		s.connections++
		mu.Unlock()
		for reader := bufio.NewReader(connection); ; {
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			var body struct{ Events []any }
			json.NewDecoder(request.Body).Decode(&body)
			io.Copy(io.Discard, request.Body)
			mu.Lock()
			s.requests++
			response, closes := respond(len(body.Events), s.requests)
			mu.Unlock()
			io.WriteString(connection, response)
			if closes {
				return
			}
		}
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(connection)
		}
	}()
	return s
}

func respond(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

func accept(events int) string {
	return respond(202, fmt.Sprintf(`{"accepted":%d,"duplicates":0,"rejected":[]}`, events))
}

func TestAFailureSaysWhatTheResponseWasWithoutItsControlCharacters(t *testing.T) {
	var failures []string
	body := "no\r\nERROR forged\x1b[31m\u009b31m\u2028x"
	responses := []string{
		respond(500, body),
		"HTTP/1.1 307 x\r\nLocation: http://other/\u009b31m\r\nContent-Length: 0\r\n\r\n",
		respond(202, "<html>Sign in</html>"),
		respond(202, `{"duplicates":1,"rejected":[]}`),
		"HTTP/1.1 400 x\r\nContent-Length: 40\r\n\r\n{",
	}
	s := serveRaw(t, func(events, number int) (response string, closes bool) {
		return append(responses, accept(events))[number-1], true
	})
	sender := openURL(t, s.url, func(options *Options) {
		options.Logf = func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	})
	send(t, sender, map[string]any{})
	equal(t, sender.Close(context.Background()).Accepted, 1)
	for i := range failures {
		_, failures[i], _ = strings.Cut(failures[i], " s: ")
	}
	equal(t, failures, []string{
		"500 no  ERROR forged [31m 31m x",
		"307 to http://other/ 31m, which is not followed ",
		"202, which is not a result of Ingest: <html>Sign in</html>",
		`202, which is not a result of Ingest: {"duplicates":1,"rejected":[]}`,
		"the 400 is cut: unexpected EOF",
	})
}

func TestInformationalResponsesAreNotTheResponse(t *testing.T) {
	hints := "HTTP/1.1 102 Processing\r\n\r\n" + strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 3)
	s := serveRaw(t, func(events, number int) (string, bool) {
		if number == 2 {
			return hints + respond(503, ""), false
		} else if number == 3 {
			return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", true
		}
		return hints + accept(events), false
	})
	sender := openURL(t, s.url, func(options *Options) { options.FlushInterval = time.Hour })
	for n := 0; n < 300; n++ {
		send(t, sender, map[string]any{})
	}
	stats := sender.Close(context.Background())
	equal(t, []int{stats.Accepted, stats.Retries, s.requests}, []int{300, 2, 5})
}

func TestAConnectionThatTheServerHasClosedCostsNoAttempt(t *testing.T) {
	s := serveRaw(t, func(events, number int) (string, bool) {
		if number == 3 || number == 4 {
			return respond(503, ""), true
		}
		return accept(events), true
	})
	sender := openURL(t, s.url, func(options *Options) { options.FlushInterval = time.Hour })
	for n := 0; n < 1000; n++ {
		send(t, sender, map[string]any{})
	}
	stats := sender.Close(context.Background())
	equal(t, []int{stats.Accepted, stats.Retries, s.requests}, []int{1000, 2, 12})
}

func TestASecondResponseToADroppedBatchIsNotThatToTheNext(t *testing.T) {
	var s *rawServer
	s = serveRaw(t, func(events, number int) (string, bool) {
		if number == 1 {
			return respond(413, ""), false // before it has read the body, as a proxy does
		} else if s.connections == 1 {
			return respond(400, ""), false
		}
		return accept(events), false
	})
	sender := openURL(t, s.url, func(options *Options) { options.FlushInterval = time.Hour })
	for n := 0; n < 200; n++ {
		send(t, sender, map[string]any{})
	}
	stats := sender.Close(context.Background())
	equal(t, stats.Accepted, 100)
	equal(t, stats.Dropped, map[string]int{"too_large": 100})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestARequestThatIsSentOnceMoreHasTheDeadlineOfTheFirst(t *testing.T) {
	var deadlines []time.Time
	sender := openURL(t, "http://127.0.0.1:1", func(options *Options) {
		options.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			deadline, _ := r.Context().Deadline()
			deadlines = append(deadlines, deadline)
			httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Reused: true})
			return nil, errors.New("closed by the server")
		})
	})
	defer sender.Close(context.Background())
	sender.attempt(context.Background(), []byte("{}"), 1)
	equal(t, len(deadlines), 2)
	equal(t, deadlines[0], deadlines[1])
}

func TestEachDropHasAReason(t *testing.T) {
	var drops []string
	var sender *Sender
	sender = open(t, serve(t, 400), func(options *Options) {
		options.QueueEventsMax, options.FlushInterval = 1, time.Hour
		options.OnDrop = func(reason string, event, _ json.RawMessage) {
			drops = append(drops, reason+string(parseObject(event)["n"]))
			equal(t, sender.Stats().Dropped[reason], 1)
		}
	})
	send(t, sender, map[string]any{"n": 1})
	send(t, sender, map[string]any{"n": 2, "text": strings.Repeat("x", eventBytesMax)})
	send(t, sender, map[string]any{"n": 3})
	sender.Close(context.Background())
	equal(t, drops, []string{"too_large2", "queue_overflow3", "bad_request1"})
}

func TestADamagedFileOfTheSpoolCostsItsEvent(t *testing.T) {
	spool := t.TempDir()
	for name, text := range map[string]string{"demo@1.json": `{"eventId":"a"}`, "demo@2.json": `{"eventId`, "demo@3.json": `{"eventId":"b"}`, "other@1.json": `{}`} {
		if err := os.WriteFile(filepath.Join(spool, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t)
	stats := open(t, s, func(options *Options) { options.Spool = spool }).Close(context.Background())
	equal(t, stats.Dropped["damaged"], 1)
	equal(t, ids(s), []string{"a", "b"})
	equal(t, list(t, spool), []string{"demo.lock", "other@1.json"})
}

func list(t *testing.T, directory string) (names []string) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func closed() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

func TestASpoolHasOneSenderOfAProject(t *testing.T) {
	s, spool := serve(t, 401), t.TempDir()
	spooled := func(options *Options) { options.Spool, options.FlushInterval = spool, time.Hour }
	first := open(t, s, spooled)
	id := send(t, first, map[string]any{})
	before := list(t, spool)
	options := DefaultOptions(s.URL, "demo", "ik_key")
	options.Spool = spool
	_, err := New(options)
	equal(t, err != nil && strings.Contains(err.Error(), "each sender needs its own directory"), true)
	equal(t, list(t, spool), before)
	options.ProjectID = "other"
	other, err := New(options)
	equal(t, err, nil)
	other.Close(context.Background())
	equal(t, first.Close(closed()).QueuedEvents, 1)
	s.script = nil
	open(t, s, spooled).Close(context.Background())
	equal(t, ids(s), []string{id})
}

func TestFilesOfTheSpoolAreNumberedAcrossSenders(t *testing.T) {
	s, spool := serve(t, 401, 401), t.TempDir()
	var sent []string
	for round := 0; round < 2; round++ {
		sender := open(t, s, func(options *Options) { options.Spool, options.PauseScale = spool, 1 })
		for n := 0; n < 12; n++ {
			sent = append(sent, send(t, sender, map[string]any{}))
		}
		equal(t, sender.Close(closed()).QueuedEvents, len(sent))
	}
	names := list(t, spool)
	equal(t, []string{names[0], names[1], names[24]}, []string{"demo.lock", "demo@0000000000000001.json", "demo@0000000000000024.json"})
	s.script = nil
	open(t, s, func(options *Options) { options.Spool = spool }).Close(context.Background())
	equal(t, ids(s), sent)
}

func TestAnIncompleteFileOfAKilledProcessIsNoEvent(t *testing.T) {
	spool := t.TempDir()
	if err := os.WriteFile(filepath.Join(spool, "demo@tmp"), []byte(`{"eventId`), 0o600); err != nil {
		t.Fatal(err)
	}
	stats := open(t, serve(t), func(options *Options) { options.Spool = spool }).Close(context.Background())
	equal(t, stats.Dropped, map[string]int{})
	equal(t, list(t, spool), []string{"demo.lock"})
}

func TestARelativeSpoolDoesNotFollowTheWorkingDirectory(t *testing.T) {
	directory, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chdir(directory)
	spool := t.TempDir()
	os.Chdir(spool)
	sender := openURL(t, "http://127.0.0.1:1", func(options *Options) { options.Spool = "spool" })
	send(t, sender, map[string]any{})
	os.Chdir(directory)
	send(t, sender, map[string]any{})
	equal(t, sender.Close(closed()).QueuedEvents, 2)
	equal(t, len(list(t, filepath.Join(spool, "spool"))), 3)
}

// block keeps the spool from being written, until the returned function is called.
func block(t *testing.T, spool string) (unblock func()) {
	t.Helper()
	path := filepath.Join(spool, "demo@tmp")
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() { os.RemoveAll(path) }
}

func TestEventsAreInMemoryWhileTheSpoolCannotBeWritten(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	s := serve(t)
	sender := open(t, s, func(options *Options) { options.Spool, options.FlushInterval = spool, time.Hour })
	first := send(t, sender, map[string]any{})
	block(t, spool)
	second := send(t, sender, map[string]any{})
	equal(t, sender.Flush(context.Background()), nil)
	equal(t, ids(s), []string{first, second})

	third := send(t, sender, map[string]any{})
	equal(t, sender.Close(closed()).Dropped["closed"], 1)
	equal(t, third != "", true)
}

func TestAFailureOfTheSpoolIsLoggedOnceUntilItWorksAgain(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	var logged []string
	sender := open(t, serve(t), func(options *Options) {
		options.Spool, options.FlushInterval = spool, time.Hour
		options.Logf = func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
	})
	for round := 1; round <= 2; round++ {
		unblock := block(t, spool)
		send(t, sender, map[string]any{})
		send(t, sender, map[string]any{})
		equal(t, len(logged), round)
		unblock()
		send(t, sender, map[string]any{})
	}
	equal(t, strings.HasPrefix(logged[0], "sender: the spool cannot be written, events are in memory only: "), true)
	equal(t, sender.Close(context.Background()).Accepted, 6)
}

// takeOver deletes a spool, and leaves an event of another sender in its place, whose file is returned.
func takeOver(t *testing.T, spool string) (other string) {
	t.Helper()
	if err := os.RemoveAll(spool); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(spool, 0o700); err != nil {
		t.Fatal(err)
	}
	other = filepath.Join(spool, "demo@0000000000000001.json")
	if err := os.WriteFile(other, []byte(`{"eventId":"other"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}

func TestASpoolThatWasDeletedIsMadeAgain(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	var logged []string
	open1 := func(s *server) *Sender {
		return open(t, s, func(options *Options) {
			options.Spool, options.FlushInterval = spool, time.Hour
			options.Logf = func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
		})
	}
	sender := open1(serve(t))
	first := send(t, sender, map[string]any{})
	takeOver(t, spool)
	second := send(t, sender, map[string]any{})
	equal(t, logged, []string{"sender: the spool was deleted: the events in memory are written to it again"})
	equal(t, sender.Close(closed()).QueuedEvents, 2)
	s := serve(t)
	equal(t, open1(s).Close(context.Background()).Accepted, 3)
	equal(t, ids(s), []string{"other", first, second})
}

func TestNoFileOfAnotherSenderIsDeleted(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	sender := open(t, serve(t), func(options *Options) { options.Spool, options.FlushInterval = spool, time.Hour })
	send(t, sender, map[string]any{})
	other := takeOver(t, spool)
	equal(t, sender.Close(context.Background()).Accepted, 1)
	_, err := os.Stat(other)
	equal(t, err, nil)
}

func TestAnEventWhoseFileCannotBeMadeAgainIsNotKept(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	sender := open(t, serve(t), func(options *Options) { options.Spool, options.FlushInterval = spool, time.Hour })
	send(t, sender, map[string]any{})
	if err := os.RemoveAll(spool); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(spool, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stats := sender.Close(closed())
	equal(t, stats.QueuedEvents, 0)
	equal(t, stats.Dropped, map[string]int{"closed": 1})
}

func TestEventsAreInMemoryWhenTheDiskIsFullAtTheStart(t *testing.T) {
	if disk := os.Getenv("FULL_DISK"); disk != "" {
		var logged []string
		sender := open(t, serve(t), func(options *Options) {
			options.Spool = filepath.Join(disk, "spool")
			options.Logf = func(format string, args ...any) { logged = append(logged, fmt.Sprintf(format, args...)) }
		})
		send(t, sender, map[string]any{})
		equal(t, sender.Close(context.Background()).Accepted, 1)
		equal(t, len(logged), 1)
		equal(t, strings.Contains(fmt.Sprint(logged), "no space left"), true)
		return
	}
	disk := t.TempDir()
	run := func(command ...string) ([]byte, error) { // in a namespace where no file can be made in disk
		script := `mount -t tmpfs -o nr_inodes=1 tmpfs "$FULL_DISK" && exec "$@"`
		full := exec.Command("unshare", append([]string{"-Urm", "sh", "-c", script, "sh"}, command...)...)
		full.Env = append(os.Environ(), "FULL_DISK="+disk)
		return full.CombinedOutput()
	}
	if output, err := run("true"); err != nil {
		t.Skipf("no full disk can be mounted here: %v %s", err, output)
	}
	output, err := run(os.Args[0], "-test.run=^"+t.Name()+"$")
	if err != nil {
		t.Errorf("%v %s", err, output)
	}
}

func TestASpoolThatIsAFileIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	options := DefaultOptions("http://127.0.0.1:1", "demo", "ik_key")
	options.Spool = file
	_, err := New(options)
	equal(t, err.Error(), "sender: the spool: mkdir "+file+": not a directory")
}

func TestA202CountsOnlyIfItAccountsForEachEvent(t *testing.T) {
	for text, expected := range map[string]bool{
		`{"accepted":1,"duplicates":1,"rejected":[]}`:                                                true,
		`{"accepted":1,"duplicates":0,"rejected":[{"index":1,"issues":[]}]}`:                         true,
		`{"accepted":null,"duplicates":2,"rejected":[]}`:                                             false,
		`{"accepted":2,"duplicates":null,"rejected":[]}`:                                             false,
		`{"accepted":2,"duplicates":0,"rejected":null}`:                                              false,
		`{"accepted":1,"duplicates":0,"rejected":[null]}`:                                            false,
		`{"accepted":1,"duplicates":0,"rejected":[{"index":null,"issues":[]}]}`:                      false,
		`{"accepted":1,"duplicates":0,"rejected":[{"index":1,"issues":null}]}`:                       false,
		`{"accepted":1,"duplicates":0,"rejected":[{"index":2,"issues":[]}]}`:                         false,
		`{"accepted":0,"duplicates":0,"rejected":[{"index":1,"issues":[]},{"index":1,"issues":[]}]}`: false,
		`{"accepted":2,"duplicates":1,"rejected":[]}`:                                                false,
		`{"accepted":1,"duplicates":0,"rejected":[]}`:                                                false,
		`{"accepted":-1,"duplicates":3,"rejected":[]}`:                                               false,
		`{"accepted":65538,"duplicates":0,"rejected":[]}`:                                            false,
		`{"accepted":"2","duplicates":0,"rejected":[]}`:                                              false,
		`{"accepted":2,"rejected":[]}`:                                                               false,
		`null`:                                                                                       false,
		``:                                                                                           false,
	} {
		if _, ok := parseResult([]byte(text), 2); ok != expected {
			t.Errorf("%t for %s", ok, text)
		}
	}
}

func TestSendDoesNotWaitForLogf(t *testing.T) {
	called, release := make(chan bool), make(chan bool)
	sender := open(t, serve(t, 503), func(options *Options) {
		options.Logf = func(string, ...any) {
			called <- true
			<-release
		}
	})
	send(t, sender, map[string]any{})
	<-called
	sent := make(chan bool)
	go func() {
		sender.Send(map[string]any{})
		sender.Stats()
		close(sent)
	}()
	select {
	case <-sent:
	case <-time.After(20 * time.Second):
		t.Error("Send waits for Logf")
	}
	close(release)
	equal(t, sender.Close(context.Background()).Accepted, 2)
}

func TestCloseEndsWhenAPauseBeginsThatIsLongerThanItsDeadline(t *testing.T) {
	received, release := make(chan bool), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(received)
		<-release
		w.WriteHeader(401)
	}))
	defer s.Close()
	sender := openURL(t, s.URL, func(options *Options) { options.PauseScale = 1 })
	send(t, sender, map[string]any{})
	<-received
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	go func() {
		for sender.isOpen() {
			runtime.Gosched()
		}
		close(release)
	}()
	equal(t, sender.Close(ctx).Dropped["closed"], 1)
	equal(t, ctx.Err(), nil)
}

func (s *Sender) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.isClosed
}

func TestRetryAfterIsSecondsOrADateUpToAnHour(t *testing.T) {
	for value, expected := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "7200": time.Hour, "99999999999999999999999": time.Hour, "-1": 0, "1.5": 0, "+1": 0,
		"soon": 0, "Sun, 06 Nov 1994 08:49:37 GMT": 0, time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat): time.Hour,
	} {
		equal(t, parseRetryAfter(value), expected)
	}
}

func TestACloseLeavesNoGoroutine(t *testing.T) {
	for _, each := range []struct {
		script   []int
		expected int // events that are accepted
	}{{nil, 1}, {[]int{503, 503}, 1}, {[]int{401}, 0}} {
		before := runtime.NumGoroutine()
		s, spool := serve(t, each.script...), t.TempDir()
		sender := open(t, s, func(options *Options) {
			options.Spool = spool
			if each.expected == 0 {
				options.PauseScale = 1
			}
		})
		send(t, sender, map[string]any{})
		for sender.Stats().Failure == nil && sender.Stats().Accepted == 0 {
			runtime.Gosched()
		}
		flushing, cancel := context.WithCancel(context.Background())
		flushed := make(chan error)
		go func() { flushed <- sender.Flush(flushing) }()
		ctx, cancelClose := context.WithTimeout(context.Background(), time.Minute)
		equal(t, sender.Close(ctx).Accepted, each.expected)
		equal(t, <-flushed, nil)
		cancel()
		cancelClose()
		s.Server.Close()
		for runtime.NumGoroutine() > before {
			runtime.Gosched()
		}
	}
}
