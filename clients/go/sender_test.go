package sender

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
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
	options := DefaultOptions(s.URL, "demo", "ik_key")
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
	} {
		line, _, err := encode(map[string]any{"value": each.value}, "demo")
		equal(t, err, nil)
		equal(t, string(parseObject(line)["value"]), each.text)
	}
}

func TestInvalidOptionsAreAnError(t *testing.T) {
	for _, url := range []string{"ingest.example", "ftp://ingest.example", "http://", "http://a?b", "http://a b"} {
		if _, err := New(DefaultOptions(url, "demo", "ik_key")); err == nil {
			t.Errorf("no error for %q", url)
		}
	}
	if _, err := New(DefaultOptions("http://127.0.0.1", "../demo", "ik_key")); err == nil {
		t.Error("no error for a project that is a path")
	}
}

func TestTheKeyIsReadForEachAttempt(t *testing.T) {
	s := serve(t, 503)
	keys := []string{"ik_1", "ik_2"}
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
	left, _ := filepath.Glob(filepath.Join(spool, "*"))
	equal(t, left, []string{filepath.Join(spool, "other@1.json")})
}

func TestEventsAreInMemoryWhileTheSpoolCannotBeWritten(t *testing.T) {
	spool := filepath.Join(t.TempDir(), "spool")
	s := serve(t)
	sender := open(t, s, func(options *Options) { options.Spool, options.FlushInterval = spool, time.Hour })
	first := send(t, sender, map[string]any{})
	if err := os.RemoveAll(spool); err != nil {
		t.Fatal(err)
	}
	second := send(t, sender, map[string]any{})
	equal(t, sender.Flush(context.Background()), nil)
	equal(t, ids(s), []string{first, second})

	third := send(t, sender, map[string]any{})
	ended, end := context.WithCancel(context.Background())
	end()
	equal(t, sender.Close(ended).Dropped["closed"], 1)
	equal(t, third != "", true)
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
	before := runtime.NumGoroutine()
	s := serve(t, 401)
	sender := open(t, s, func(options *Options) { options.PauseScale = 1 })
	send(t, sender, map[string]any{})
	for sender.Stats().Failure == nil {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	equal(t, sender.Close(ctx).Dropped["closed"], 1)
	s.Server.Close()
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
}
