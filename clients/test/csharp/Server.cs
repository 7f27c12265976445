using System;
using System.Threading.Tasks;
using Ingest;

public static class Server {
    public static async Task Main() {
        var sender = new IngestSender(new IngestOptions {
            Url = "https://ingest.example",
            ProjectId = "game-1",
            Key = Environment.GetEnvironmentVariable("INGEST_KEY"),
            Spool = "data/spool",
            OnDrop = (reason, events, detail) => Console.Error.WriteLine($"dropped {events.Count}: {reason}. {detail}"),
        });
        sender.Send("{\"type\":\"round.start\",\"buildId\":\"2026.11.20\"}");
        await sender.CloseAsync(TimeSpan.FromSeconds(10));
    }
}
