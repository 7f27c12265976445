module ingest.example/sender

go 1.19
