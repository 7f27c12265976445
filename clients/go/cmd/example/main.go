// Command example sends an event.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"ingest.example/sender"
)

func main() {
	options := sender.DefaultOptions(os.Getenv("INGEST_URL"), os.Getenv("INGEST_PROJECT_ID"), os.Getenv("INGEST_KEY"))
	options.Spool = "spool"
	s, err := sender.New(options)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := s.Send(map[string]any{"type": "round.start", "buildId": "2026.11.20"}); err != nil {
		log.Print(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Printf("%+v\n", s.Close(ctx))
}
