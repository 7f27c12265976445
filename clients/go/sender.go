// Package sender sends events to Ingest in the background. See README.md.
package sender

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	mathrand "math/rand"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	batchEventsMax    = 100
	batchBytesMax     = 262_144
	eventBytesMax     = batchBytesMax - len(`{"events":[]}`)
	backoffMax        = time.Minute
	retryAfterMax     = time.Hour
	unauthorizedPause = 5 * time.Minute
	responseBytesMax  = 8 << 20
)

var (
	ErrClosed      = errors.New("sender: closed") // returned by Send after Close
	projectPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	keyPattern     = regexp.MustCompile(`^[!-~]+$`)
	idPattern      = regexp.MustCompile(`^[^\x00-\x1f\x7f]+$`)
)

// Options configures a Sender. The zero value of a field is its default; URL, ProjectID and Key are required.
type Options struct {
	URL, ProjectID                string
	Key                           func() string // called by New and for each attempt
	Spool                         string        // a directory that keeps the queue across restarts
	FlushInterval                 time.Duration // how long an event waits for others
	Timeout                       time.Duration // of an attempt
	QueueEventsMax, QueueBytesMax int           // queued or in flight
	PauseScale                    float64       // multiplies every pause, for tests
	Transport                     http.RoundTripper
	Logf                          func(format string, args ...any)                   // called for failures
	OnDrop                        func(reason string, event, issues json.RawMessage) // called for each dropped event
}

// DefaultOptions returns options without a spool, with the proxy of the environment and the logger of package log.
func DefaultOptions(url, projectID, key string) Options {
	return Options{URL: url, ProjectID: projectID, Key: func() string { return key }}.withDefaults()
}

func (o Options) withDefaults() Options {
	setDefault(&o.FlushInterval, 2*time.Second)
	setDefault(&o.Timeout, 30*time.Second)
	setDefault(&o.QueueEventsMax, 10_000)
	setDefault(&o.QueueBytesMax, 16<<20)
	setDefault(&o.PauseScale, 1)
	if o.Transport == nil {
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	if o.Logf == nil {
		o.Logf = log.Printf
	}
	if o.OnDrop == nil {
		o.OnDrop = func(string, json.RawMessage, json.RawMessage) {}
	}
	return o
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// Stats are counters and gauges. Each event counts once: in Accepted, Duplicates, Dropped by reason or QueuedEvents.
type Stats struct {
	Accepted, Duplicates, Retries, QueuedEvents, QueuedBytes int
	Dropped                                                  map[string]int
	Failure                                                  error // the error of the last attempt; nil after a success
}

type queued struct {
	line []byte
	at   time.Time
	path string // in the spool; empty without one
}

// A Sender is a queue of events and a goroutine that sends it. Its methods may be called concurrently.
type Sender struct {
	options           Options
	client            *http.Client
	end               context.CancelFunc
	mu                sync.Mutex
	changed           *sync.Cond
	queue             []queued
	spool             *spool // nil without one
	stats             Stats
	removed, due      int       // how many events have left the queue, and up to which one to send at once
	deadline          time.Time // of Close; zero without one
	isClosed, isEnded bool
}

// New starts a sender, which first sends the events that an earlier one left in the spool. Its errors never contain the
// URL or the key.
func New(options Options) (*Sender, error) {
	address, err := parseURL(options.URL)
	if err != nil {
		return nil, err
	} else if !projectPattern.MatchString(options.ProjectID) {
		return nil, errors.New("sender: the project must be 1 to 64 of A-Z a-z 0-9 . _ -")
	} else if options.Key == nil {
		return nil, errors.New("sender: Key is missing")
	} else if err := checkKey(options.Key()); err != nil {
		return nil, err
	}
	options = options.withDefaults()
	options.URL = address.JoinPath("v1/events/batch").String()
	ctx, end := context.WithCancel(context.Background())
	s := &Sender{options: options, end: end, stats: Stats{Dropped: map[string]int{}}}
	s.changed = sync.NewCond(&s.mu)
	s.client = &http.Client{Transport: options.Transport}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // keeps the key here
	if options.Spool != "" {
		var damaged int
		if s.spool, s.queue, damaged, err = openSpool(options.Spool, options.ProjectID); isDiskFull(err) {
			options.Logf("sender: the spool cannot be opened, events are in memory only: %v", err)
		} else if err != nil {
			end()
			return nil, err
		} else if damaged > 0 {
			s.stats.Dropped["damaged"] = damaged
		}
		for _, each := range s.queue {
			s.stats.QueuedBytes += len(each.line)
		}
	}
	go s.run(ctx)
	return s, nil
}

func parseURL(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("sender: the URL must have a valid host and port") // the error of url.Parse contains the URL
	}
	if (address.Scheme != "http" && address.Scheme != "https") || address.Hostname() == "" {
		return nil, errors.New("sender: the URL must be http:// or https:// with a host")
	}
	if address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return nil, errors.New("sender: the URL must have no user, query or fragment")
	}
	if _, err := strconv.ParseUint(address.Port(), 10, 16); err != nil && address.Port() != "" {
		return nil, errors.New("sender: the URL must have a valid host and port")
	}
	return address, nil
}

func checkKey(key string) error {
	if key == "" {
		return errors.New("sender: the key is empty")
	}
	if !keyPattern.MatchString(key) {
		return errors.New("sender: the key must be visible ASCII characters: remove spaces and line feeds, as at the end of a file")
	}
	return nil
}

// Send queues an event, which json.Marshal turns into an object, and returns its eventId. It never waits for the network.
func (s *Sender) Send(event any) (id string, err error) {
	line, id, err := encode(event, s.options.ProjectID)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return "", ErrClosed
	}
	reason, failure := s.enqueue(line)
	s.mu.Unlock() // the callbacks may block
	if failure != nil {
		s.options.Logf("sender: the spool %v", failure)
	}
	if reason != "" {
		s.options.OnDrop(reason, line, nil)
	}
	return id, nil
}

// enqueue returns the reason if it drops the event. After a failure of the spool, such as a full disk, the event is in
// memory only. enqueue returns the first such failure after a success, and an error if the spool was deleted.
func (s *Sender) enqueue(line []byte) (reason string, failure error) {
	if len(line) > eventBytesMax {
		reason = "too_large"
	} else if len(s.queue) >= s.options.QueueEventsMax || s.stats.QueuedBytes+len(line) > s.options.QueueBytesMax {
		reason = "queue_overflow"
	}
	if reason != "" {
		s.stats.Dropped[reason]++
		return reason, nil
	}
	event := queued{line: line, at: time.Now()}
	if s.spool != nil && s.spool.isDeleted() {
		failure = s.renewSpool()
	}
	if s.spool != nil {
		path, err := s.spool.write(line)
		if err == nil {
			event.path = path
		} else if !s.spool.isFailing {
			failure = fmt.Errorf("cannot be written, events are in memory only: %w", err)
		}
		s.spool.isFailing = err != nil
	}
	s.queue = append(s.queue, event)
	s.stats.QueuedBytes += len(line)
	if len(s.queue) == 1 || len(s.queue) >= batchEventsMax || s.stats.QueuedBytes >= batchBytesMax {
		s.changed.Broadcast()
	}
	return "", failure
}

// renewDeletedSpool releases the lock for Logf, which may block.
func (s *Sender) renewDeletedSpool() {
	if s.spool == nil || !s.spool.isDeleted() {
		return
	}
	failure := s.renewSpool()
	s.mu.Unlock()
	s.options.Logf("sender: the spool %v", failure)
	s.mu.Lock()
}

// renewSpool recreates a spool whose directory was deleted, with the events in memory. It returns an error to log.
func (s *Sender) renewSpool() error {
	s.spool.close()
	if err := s.spool.open(); err != nil {
		for i := range s.queue {
			s.queue[i].path = ""
		}
		s.spool = nil
		return fmt.Errorf("was deleted and cannot be made again, events are in memory only: %w", err)
	}
	s.restoreEvents()
	return errors.New("was deleted: the events in memory are written to it again")
}

// restoreEvents writes the files of events that were deleted. An event whose file cannot be written is in memory only.
func (s *Sender) restoreEvents() {
	for i, each := range s.queue {
		if each.path == "" {
			continue
		}
		path, err := s.spool.restore(each)
		if err != nil {
			path = ""
		}
		s.queue[i].path = path
	}
}

// encode adds missing ids.
func encode(event any, project string) (line []byte, id string, err error) {
	line, err = json.Marshal(event)
	members := parseObject(line)
	if members != nil && members["projectId"] == nil {
		members["projectId"] = []byte(`"` + project + `"`)
	}
	if members != nil && members["eventId"] == nil {
		b := make([]byte, 16)
		rand.Read(b)
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		members["eventId"] = []byte(fmt.Sprintf(`"%x-%x-%x-%x-%x"`, b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
	}
	if err != nil {
		return nil, "", fmt.Errorf("sender: the event is not JSON: %w", err)
	} else if members == nil {
		return nil, "", errors.New("sender: the event is not a JSON object in UTF-8")
	} else if json.Unmarshal(members["eventId"], &id) != nil || len(id) > 256 || !idPattern.MatchString(id) {
		return nil, "", errors.New("sender: eventId must be a string of 1 to 256 bytes without control characters")
	} else if strings.ContainsRune(id, utf8.RuneError) { // in place of lone surrogates and of bytes that are not UTF-8
		return nil, "", errors.New("sender: eventId must be UTF-8 without U+FFFD and lone surrogates")
	}
	line, err = json.Marshal(members)
	return line, id, err
}

func parseObject(text []byte) (members map[string]json.RawMessage) {
	if utf8.Valid(text) {
		_ = json.Unmarshal(text, &members)
	}
	return members // nil for anything else
}

// Flush sends at once. It waits until all present events are stored or dropped, the sender ends, or ctx is done; then
// it returns the error of ctx.
func (s *Sender) Flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.removed + len(s.queue)
	s.due = until
	s.waitUntil(ctx, math.MaxInt64, func() bool { return s.removed >= until || s.isEnded })
	return ctx.Err()
}

// Close sends the queue until ctx is done, or less if the next pause is longer. The rest stays in the spool, or is
// dropped as "closed".
func (s *Sender) Close(ctx context.Context) Stats {
	s.mu.Lock()
	if deadline, ok := ctx.Deadline(); ok && (s.deadline.IsZero() || deadline.Before(s.deadline)) {
		s.deadline = deadline
	}
	s.isClosed, s.due = true, s.removed+len(s.queue)
	s.waitUntil(ctx, math.MaxInt64, func() bool { return s.isEnded })
	s.end()
	s.waitUntil(context.Background(), math.MaxInt64, func() bool { return s.isEnded })
	s.mu.Unlock()
	return s.Stats()
}

// Stats returns the current counts.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.QueuedEvents, stats.Dropped = len(s.queue), map[string]int{}
	for reason, count := range s.stats.Dropped {
		stats.Dropped[reason] = count
	}
	return stats
}

// drop counts an event, and releases the lock for the callback.
func (s *Sender) drop(reason string, line, issues json.RawMessage) {
	s.stats.Dropped[reason]++
	s.mu.Unlock()
	s.options.OnDrop(reason, line, issues)
	s.mu.Lock()
}

// waitUntil releases the lock until a condition is met, the time is over, or ctx is done.
func (s *Sender) waitUntil(ctx context.Context, timeout time.Duration, isMet func() bool) {
	s.changed.Broadcast()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	go func() {
		<-ctx.Done()
		s.mu.Lock()
		s.changed.Broadcast()
		s.mu.Unlock()
	}()
	for !isMet() && ctx.Err() == nil {
		s.changed.Wait()
	}
}

// run sends batches that are due. It holds the lock, except during an attempt and while it waits.
func (s *Sender) run(ctx context.Context) {
	s.mu.Lock()
	for ctx.Err() == nil && !(s.isClosed && len(s.queue) == 0) {
		if wait := s.dueIn(); wait <= 0 {
			s.deliver(ctx)
		} else {
			s.client.CloseIdleConnections() // the server may close them at any time
			length := len(s.queue)
			s.waitUntil(ctx, wait, func() bool { return len(s.queue) != length || s.removed < s.due || s.isClosed })
		}
	}
	s.client.CloseIdleConnections()
	s.renewDeletedSpool()
	if s.spool != nil { // single files may have been deleted too
		s.restoreEvents()
	}
	sort.SliceStable(s.queue, func(i, j int) bool { return s.queue[i].path == "" && s.queue[j].path != "" })
	lost := sort.Search(len(s.queue), func(i int) bool { return s.queue[i].path != "" })
	s.settle(lost, "closed", result{})
	if s.spool != nil {
		s.spool.close()
	}
	s.isEnded = true
	s.changed.Broadcast()
	s.mu.Unlock()
}

func (s *Sender) dueIn() time.Duration {
	if len(s.queue) == 0 {
		return math.MaxInt64
	} else if s.removed < s.due || len(s.queue) >= batchEventsMax || s.stats.QueuedBytes+len(s.queue) > eventBytesMax {
		return 0
	}
	return time.Until(s.queue[0].at.Add(s.options.FlushInterval))
}

// deliver sends the same bytes until they are stored or dropped, or the sender ends.
func (s *Sender) deliver(ctx context.Context) {
	body, count := []byte(`{"events":[`), 0
	for count < len(s.queue) && count < batchEventsMax && len(body)+len(s.queue[count].line)+len("]}") <= batchBytesMax {
		body = append(append(body, s.queue[count].line...), ',')
		count++
	}
	body = append(body[:len(body)-1], "]}"...)
	random := mathrand.New(mathrand.NewSource(time.Now().UnixNano()))
	for backoff := 1.0; ; backoff = math.Min(2*backoff, backoffMax.Seconds()) {
		s.mu.Unlock()
		reason, floor, result, err := s.attempt(ctx, body, count)
		if err != nil { // a server that has not read the body may take the rest of it for a request and respond to that
			s.client.CloseIdleConnections()
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return
		}
		s.stats.Failure = err
		if reason != "" {
			s.settle(count, reason, result)
			return
		}
		seconds := (floor.Seconds() + random.Float64()*backoff) * s.options.PauseScale
		s.pause(ctx, time.Duration(seconds*float64(time.Second)), err)
	}
}

// pause waits before the next attempt. It ends the sender if the deadline of Close is earlier.
func (s *Sender) pause(ctx context.Context, pause time.Duration, failure error) {
	until := time.Now().Add(pause)
	s.mu.Unlock() // Logf may block
	s.options.Logf("sender: next attempt in %.1f s: %v", pause.Seconds(), failure)
	s.mu.Lock()
	isTooLong := func() bool { return s.isClosed && !s.deadline.IsZero() && until.After(s.deadline) }
	s.waitUntil(ctx, time.Until(until), isTooLong)
	if isTooLong() {
		s.end()
	} else if ctx.Err() == nil {
		s.stats.Retries++
	}
}

// attempt returns the reason for events that are dropped if the outcome is final, and otherwise the minimum pause.
func (s *Sender) attempt(ctx context.Context, body []byte, count int) (reason string, floor time.Duration, r result, err error) {
	key, err := s.callKey(ctx)
	if err != nil {
		return "", 0, r, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout) // for both requests of post, and the body
	defer cancel()
	header := http.Header{
		"X-Project-Id":    {s.options.ProjectID},
		"X-Ingestion-Key": {key},
		"Content-Type":    {"application/json"},
	}
	response, err := s.post(ctx, body, header)
	if err != nil {
		return "", 0, r, clean(err, key)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, responseBytesMax))
	if err != nil { // a truncated response is none
		return "", 0, r, fmt.Errorf("the %d is cut: %w", response.StatusCode, clean(err, key))
	}
	text = []byte(cleanText(string(text), key))
	floor = parseRetryAfter(response.Header.Get("Retry-After"))
	what := ""
	if location := response.Header.Get("Location"); location != "" && response.StatusCode < 400 {
		what = cleanText(" to "+location+", which is not followed", key)
	}
	switch response.StatusCode {
	case http.StatusAccepted:
		if r, ok := parseResult(text, count); ok {
			return "rejected", 0, r, nil
		}
		what = ", which is not a result of Ingest:"
	case http.StatusBadRequest:
		reason = "bad_request"
	case http.StatusRequestEntityTooLarge:
		reason = "too_large"
	case http.StatusUnauthorized, http.StatusForbidden:
		floor = unauthorizedPause
	}
	return reason, floor, r, fmt.Errorf("%d%s %.200s", response.StatusCode, what, text)
}

// callKey calls Key, but returns when ctx is done: Close does not wait for a Key that blocks.
func (s *Sender) callKey(ctx context.Context) (string, error) {
	keys := make(chan string, 1)
	go func() { keys <- s.options.Key() }()
	select {
	case key := <-keys:
		return key, checkKey(key)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// post sends a request. A server may close a kept connection at any time: a request on one that gets no byte of a
// response is sent once more over a new one.
func (s *Sender) post(ctx context.Context, body []byte, header http.Header) (*http.Response, error) {
	var isKept, hasResponse atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(info httptrace.GotConnInfo) { isKept.Store(info.Reused) },
		GotFirstResponseByte: func() { hasResponse.Store(true) },
	})
	do := func() (*http.Response, error) {
		request, _ := http.NewRequestWithContext(traced, http.MethodPost, s.options.URL, bytes.NewReader(body))
		request.Header = header
		return s.client.Do(request)
	}
	response, err := do()
	var failure *url.Error
	if errors.As(err, &failure) && !failure.Timeout() && isKept.Load() && !hasResponse.Load() && ctx.Err() == nil {
		s.client.CloseIdleConnections()
		return do()
	}
	return response, err
}

// cleanText hides the key, which a server may echo, and control characters: a line feed would forge a line of a log.
func cleanText(text, key string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ReplaceAll(text, key, "[key]"))
}

// clean is cleanText for an error, which may quote a response that is not HTTP.
func clean(err error, key string) error {
	if text := cleanText(err.Error(), key); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// parseRetryAfter parses seconds or an HTTP date. It returns at most an hour, and 0 for anything else.
func parseRetryAfter(value string) time.Duration {
	date, _ := http.ParseTime(value) // in the past for what is not a date
	seconds := time.Until(date).Seconds()
	if number, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		seconds = float64(number)
	}
	return time.Duration(math.Max(0, math.Min(seconds, retryAfterMax.Seconds())) * float64(time.Second))
}

// A result is the body of a 202. Its issues are those of rejected events by index, or nil if all events are dropped.
type result struct {
	accepted, duplicates uint16
	issues               map[uint16]json.RawMessage
}

// parseResult accepts only a body that accounts for each event, unlike that of a proxy.
func parseResult(text []byte, count int) (r result, ok bool) {
	var accepted, duplicates *uint16 // nil for null
	var rejected []map[string]json.RawMessage
	body := parseObject(text)
	ok = json.Unmarshal(body["accepted"], &accepted) == nil && json.Unmarshal(body["duplicates"], &duplicates) == nil &&
		json.Unmarshal(body["rejected"], &rejected) == nil && accepted != nil && duplicates != nil && rejected != nil
	if !ok {
		return r, false
	}
	r = result{*accepted, *duplicates, map[uint16]json.RawMessage{}}
	for _, each := range rejected {
		var index *uint16
		if json.Unmarshal(each["index"], &index) == nil && index != nil && int(*index) < count && bytes.HasPrefix(each["issues"], []byte("[")) {
			r.issues[*index] = each["issues"]
		}
	}
	return r, len(r.issues) == len(rejected) && int(r.accepted)+int(r.duplicates)+len(r.issues) == count
}

// settle removes a batch, which is stored or dropped, from the queue.
func (s *Sender) settle(count int, reason string, r result) {
	s.renewDeletedSpool() // otherwise this might delete a file of another sender
	batch := s.queue[:count]
	s.queue, s.removed = s.queue[count:], s.removed+count
	s.stats.Accepted += int(r.accepted)
	s.stats.Duplicates += int(r.duplicates)
	for _, each := range batch {
		s.stats.QueuedBytes -= len(each.line)
		if each.path != "" {
			os.Remove(each.path) // after an error, the next sender sends it again
		}
	}
	s.changed.Broadcast()
	for i, each := range batch {
		batch[i] = queued{} // frees the line: the array of the queue lives on
		if issues, ok := r.issues[uint16(i)]; ok || r.issues == nil {
			s.drop(reason, each.line, issues)
		}
	}
}
