// Sends events from standard input, one JSON object a line, and prints the response to each batch:
//
//	INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… go run send_batch.go < events.ndjson
package main

import (
	"bufio"
	"bytes"
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
)

var client = &http.Client{Timeout: 30 * time.Second}

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
	retryAfter, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return response.StatusCode, time.Duration(retryAfter) * time.Second, text, err
}

// send sends a batch until it is stored or refused. Every retry has the same bytes.
func send(events [][]byte) bool {
	body := append(append([]byte(`{"events":[`), bytes.Join(events, []byte(","))...), "]}"...)
	for bound := time.Second; ; {
		status, retryAfter, text, err := post(body)
		switch {
		case err == nil && status == http.StatusAccepted:
			fmt.Println(string(text))
			return true
		case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge:
			log.Printf("dropped: %d %s", status, text)
			return false
		case status == http.StatusUnauthorized:
			log.Print("401: sending pauses for 5 minutes")
			time.Sleep(unauthorizedPause)
		case err != nil || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500:
			wait := time.Duration(rand.Int63n(int64(bound)))
			if wait < retryAfter {
				wait = retryAfter
			}
			time.Sleep(wait)
			if bound *= 2; bound > backoffMax {
				bound = backoffMax
			}
		default:
			log.Fatalf("%d: check INGEST_URL", status)
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
