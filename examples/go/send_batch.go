// Sends events from standard input, one JSON object a line, and prints the response to each batch:
//
//	INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… go run send_batch.go < events.ndjson
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	batchEventsMax    = 100
	batchBytesMax     = 262_144
	unauthorizedPause = 5 * time.Minute
	backoffMax        = time.Minute
	retryAfterMax     = time.Hour
)

var client = &http.Client{
	Timeout: 30 * time.Second,
	// following a redirect would send the key to another host
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post returns the status, Retry-After and body of the response.
func post(body []byte) (int, time.Duration, []byte, error) {
	request, err := http.NewRequest(http.MethodPost, os.Getenv("INGEST_URL")+"/v1/events/batch", bytes.NewReader(body))
	if err != nil {
		return 0, 0, nil, err
	}
	request.Header.Set("X-Project-Id", os.Getenv("INGEST_PROJECT_ID"))
	request.Header.Set("X-Ingestion-Key", os.Getenv("INGEST_KEY"))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, parseRetryAfter(response.Header.Get("Retry-After")), text, err
}

// parseRetryAfter takes seconds or a date, at most an hour; 0 for anything else.
func parseRetryAfter(value string) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		if seconds > uint64(retryAfterMax/time.Second) {
			return retryAfterMax
		}
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	if wait < 0 {
		return 0
	}
	if wait > retryAfterMax {
		return retryAfterMax
	}
	return wait
}

// isResult returns whether a response accounts for each event of a batch. That of a proxy does not.
func isResult(text []byte, count int) bool {
	var result struct {
		Accepted   *int               `json:"accepted"`
		Duplicates *int               `json:"duplicates"`
		Rejected   *[]json.RawMessage `json:"rejected"`
	}
	if json.Unmarshal(text, &result) != nil {
		return false
	}
	if result.Accepted == nil || result.Duplicates == nil || result.Rejected == nil {
		return false
	}
	accepted, duplicates := *result.Accepted, *result.Duplicates
	return accepted >= 0 && duplicates >= 0 && accepted+duplicates+len(*result.Rejected) == count
}

// send sends a batch until it is stored or refused. Every retry has the same bytes.
func send(events [][]byte) bool {
	body := append(append([]byte(`{"events":[`), bytes.Join(events, []byte(","))...), "]}"...)
	for bound := time.Second; ; {
		status, retryAfter, text, err := post(body)
		switch {
		case err == nil && status == http.StatusAccepted && isResult(text, len(events)):
			fmt.Println(string(text))
			return true
		case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge:
			log.Printf("dropped: %d %s", status, text)
			return false
		case status == http.StatusUnauthorized:
			log.Print("401: sending pauses for 5 minutes")
			time.Sleep(unauthorizedPause)
			bound = time.Second
		default:
			log.Printf("retrying: %d %.200s %v", status, text, err)
			wait := time.Duration(rand.Int63n(int64(bound)))
			if wait < retryAfter {
				wait = retryAfter
			}
			time.Sleep(wait)
			if bound *= 2; bound > backoffMax {
				bound = backoffMax
			}
		}
	}
}

func main() {
	log.SetFlags(0)
	rand.Seed(time.Now().UnixNano())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, batchBytesMax)
	ok, size := true, 0
	var events [][]byte
	for lines.Scan() {
		event := bytes.TrimSpace(lines.Bytes())
		if len(event) == 0 {
			continue
		}
		isFull := len(events) == batchEventsMax || size+len(event)+len(`{"events":[]}`) > batchBytesMax
		if len(events) > 0 && isFull {
			ok = send(events) && ok
			events, size = nil, 0
		}
		events, size = append(events, append([]byte(nil), event...)), size+len(event)+1
	}
	if len(events) > 0 {
		ok = send(events) && ok
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	if !ok {
		os.Exit(1)
	}
}
