using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading.Tasks;

namespace Ingest {
    /// <summary>The sender as a program, for the conformance kit: NDJSON on standard input, an empty line is a flush.</summary>
    public static class Conformance {
        public static void Main() {
            RunAsync().GetAwaiter().GetResult();
            Console.Out.Flush();
            Exit(0); // one in some thirty runs, Mono 6.8 hangs when it shuts down after a request
        }

        [DllImport("libc", EntryPoint = "_exit")]
        private static extern void Exit(int code);

        private static async Task RunAsync() {
            var options = new IngestOptions {
                Url = Variable("INGEST_URL"),
                ProjectId = Variable("INGEST_PROJECT_ID"),
                Key = Variable("INGEST_KEY"),
                Spool = Variable("INGEST_SPOOL"),
                Timeout = Milliseconds("INGEST_TIMEOUT_MS", 30000),
                FlushAfter = Milliseconds("INGEST_FLUSH_MS", 2000),
                QueueEventsMax = (int)Number("INGEST_QUEUE_EVENTS", 10000),
                QueueBytesMax = (long)Number("INGEST_QUEUE_BYTES", 16777216),
                PauseScale = Number("INGEST_TIME_SCALE", 1),
                OnDrop = (reason, events, detail) => Console.Error.WriteLine($"dropped {events.Count}: {reason}: {detail}"),
                OnRetry = (failure, pause) => Console.Error.WriteLine($"retry in {pause}: {failure}"),
            };
            var sender = new IngestSender(options);
            if (!string.IsNullOrEmpty(Variable("INGEST_CHDIR"))) Directory.SetCurrentDirectory(Variable("INGEST_CHDIR"));
            var taken = 0;
            var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
            for (var line = await input.ReadLineAsync(); line != null; line = await input.ReadLineAsync()) {
                if (line == "") await sender.FlushAsync();
                else if (Send(sender, line)) Console.WriteLine($"taken {++taken}");
            }
            var stats = await sender.CloseAsync(Milliseconds("INGEST_CLOSE_MS", 10000));
            Console.WriteLine(Summary(stats));
        }

        private static bool Send(IngestSender sender, string line) {
            try { sender.Send(line); }
            catch (ArgumentException error) {
                Console.Error.WriteLine(error.Message);
                return false;
            }
            return true;
        }

        private static string Summary(IngestStats stats) {
            stats.Dropped.TryGetValue("rejected", out var rejected);
            var reasons = stats.Dropped.Where(each => each.Key != "rejected").Select(each => $"\"{each.Key}\":{each.Value}");
            return $"{{\"accepted\":{stats.Accepted},\"duplicates\":{stats.Duplicates},\"rejected\":{rejected},"
                + $"\"dropped\":{{{string.Join(",", reasons)}}},\"unsent\":{stats.QueuedEvents}}}";
        }

        private static string Variable(string name) => Environment.GetEnvironmentVariable(name);

        private static double Number(string name, double otherwise) =>
            double.TryParse(Variable(name), NumberStyles.Float, CultureInfo.InvariantCulture, out var value) ? value : otherwise;

        private static TimeSpan Milliseconds(string name, double otherwise) => TimeSpan.FromMilliseconds(Number(name, otherwise));
    }
}
