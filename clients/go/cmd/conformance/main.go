// Command conformance is the program of this sender for `ingest conformance -- go run ./cmd/conformance`.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"ingest.example/sender"
)

func main() {
	options := sender.DefaultOptions(os.Getenv("INGEST_URL"), os.Getenv("INGEST_PROJECT_ID"), os.Getenv("INGEST_KEY"))
	options.Spool = os.Getenv("INGEST_SPOOL")
	options.Timeout = milliseconds("INGEST_TIMEOUT_MS", options.Timeout)
	options.FlushInterval = milliseconds("INGEST_FLUSH_MS", options.FlushInterval)
	if value := os.Getenv("INGEST_QUEUE_EVENTS"); value != "" {
		options.QueueEventsMax, _ = strconv.Atoi(value)
	}
	if value := os.Getenv("INGEST_QUEUE_BYTES"); value != "" {
		options.QueueBytesMax, _ = strconv.Atoi(value)
	}
	if value := os.Getenv("INGEST_TIME_SCALE"); value != "" {
		options.PauseScale, _ = strconv.ParseFloat(value, 64)
	}
	s, err := sender.New(options)
	if err != nil {
		log.Fatal(err)
	}
	if directory := os.Getenv("INGEST_CHDIR"); directory != "" {
		if err := os.Chdir(directory); err != nil {
			log.Fatal(err)
		}
	}
	taken := 0
	lines := bufio.NewReader(os.Stdin)
	for err == nil {
		var line []byte
		if line, err = lines.ReadBytes('\n'); len(bytes.TrimSpace(line)) > 0 {
			if _, err := s.Send(json.RawMessage(line)); err != nil {
				log.Fatal(err)
			}
			taken++
			fmt.Println("taken", taken)
		} else if err == nil {
			s.Flush(context.Background())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), milliseconds("INGEST_CLOSE_MS", 10*time.Second))
	defer cancel()
	stats := s.Close(ctx)
	rejected := stats.Dropped["rejected"]
	delete(stats.Dropped, "rejected")
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"accepted": stats.Accepted, "duplicates": stats.Duplicates, "rejected": rejected,
		"dropped": stats.Dropped, "unsent": stats.QueuedEvents,
	})
}

func milliseconds(name string, fallback time.Duration) time.Duration {
	if ms, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	return fallback
}
