using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Ingest {
    /// <summary>Checks of the sender in one process: prints a line for each, with what went wrong. The first argument is
    /// an empty directory, which becomes the working directory.</summary>
    public static class Checks {
        public static void Main(string[] args) {
            Directory.SetCurrentDirectory(args[0]);
            foreach (var check in typeof(Checks).GetMethods(BindingFlags.Static | BindingFlags.NonPublic)) {
                if (check.GetCustomAttribute<CheckAttribute>() == null) continue;
                var seen = "ok";
                try { Task.Run(() => (check.Invoke(null, null) as Task)?.Wait()).Wait(); }
                catch (Exception error) { seen = error.GetBaseException().ToString().Replace("\n", " "); }
                Console.WriteLine($"{check.Name}: {seen}");
            }
            Console.Out.Flush();
            Exit(0); // as in Conformance.cs
        }

        [DllImport("libc", EntryPoint = "_exit")]
        private static extern void Exit(int code);

        [DllImport("libc", EntryPoint = "symlink")]
        private static extern int MakeLink(string target, string path);

        private sealed class CheckAttribute : Attribute { }

        /// <summary>Responds with what it is given, in turn, and with the last of that from then on.</summary>
        private sealed class Script : IIngestTransport {
            private readonly Queue<Func<string, CancellationToken, Task<IngestResponse>>> steps =
                new Queue<Func<string, CancellationToken, Task<IngestResponse>>>();
            public readonly List<string> Bodies = new List<string>();
            public int Running; // requests and pauses
            public Exception DelayFails;

            public Script(params Func<string, CancellationToken, Task<IngestResponse>>[] given) {
                foreach (var step in given) steps.Enqueue(step);
            }

            public Task<IngestResponse> PostAsync(
                Uri url, Dictionary<string, string> headers, byte[] body, TimeSpan timeout, CancellationToken cancel) {
                var text = Encoding.UTF8.GetString(body);
                lock (Bodies) Bodies.Add(text);
                return Track((steps.Count > 1 ? steps.Dequeue() : steps.Peek())(text, cancel));
            }

            public Task DelayAsync(TimeSpan time, CancellationToken cancel) {
                if (DelayFails != null) throw DelayFails;
                return Track(Task.Run(async () => {
                    await Task.Delay(time, cancel);
                    return true;
                }));
            }

            private async Task<T> Track<T>(Task<T> task) {
                Interlocked.Increment(ref Running);
                try { return await task; } finally { Interlocked.Decrement(ref Running); }
            }
        }

        private static Task<IngestResponse> Accept(string body, CancellationToken cancel) {
            var count = body.Split(new[] { "\"eventId\":" }, StringSplitOptions.None).Length - 1;
            var result = $"{{\"accepted\":{count},\"duplicates\":0,\"rejected\":[]}}";
            return Task.FromResult(new IngestResponse { Status = 202, Body = Encoding.UTF8.GetBytes(result) });
        }

        private static Func<string, CancellationToken, Task<IngestResponse>> Status(int status) =>
            (body, cancel) => Task.FromResult(new IngestResponse { Status = status });

        private static async Task<IngestResponse> Never(string body, CancellationToken cancel) {
            await Task.Delay(Timeout.Infinite, cancel);
            return null;
        }

        private static IngestOptions Options(IIngestTransport transport) => new IngestOptions {
            Url = "http://127.0.0.1:1", ProjectId = "demo", Key = "ik_key", Transport = transport, PauseScale = 0.001,
        };

        private static void Equal(object seen, object expected) {
            if (!Equals(seen, expected)) throw new Exception($"{seen ?? "null"} in place of {expected ?? "null"}");
        }

        private static void Until(Func<bool> isReached) {
            if (!SpinWait.SpinUntil(isReached, TimeSpan.FromSeconds(60))) throw new Exception("a state was not reached");
        }

        private static Exception ErrorOf(Action action) {
            try { action(); } catch (Exception error) { return error; }
            return null;
        }

        [Check] private static void InvalidOptionsAreRefusedWithoutTheirValues() {
            var wrong = new Dictionary<string, Action<IngestOptions>> {
                ["line feed after the key"] = options => options.Key = "ik_secret\n",
                ["line break after the key"] = options => options.Key = "ik_secret\r\n",
                ["space before the key"] = options => options.Key = " ik_secret",
                ["key that is no ASCII"] = options => options.Key = "ik_secrét",
                ["no key"] = options => options.Key = null,
                ["line feed after the project"] = options => options.ProjectId = "secret\n",
                ["project with a slash"] = options => options.ProjectId = "secret/b",
                ["no url"] = options => options.Url = null,
                ["url without a scheme"] = options => options.Url = "secret.example",
                ["path"] = options => options.Url = "/secret",
                ["other scheme"] = options => options.Url = "ftp://secret.example",
                ["scheme that begins like http"] = options => options.Url = "httpx://secret.example",
                ["url without a host"] = options => options.Url = "http://",
                ["credentials"] = options => options.Url = "http://user:secret@host",
                ["query"] = options => options.Url = "http://host?secret",
                ["fragment"] = options => options.Url = "http://host#secret",
                ["line feed after the url"] = options => options.Url = "http://secret.example\n",
                ["endless time-out"] = options => options.Timeout = TimeSpan.MaxValue,
                ["endless wait for others"] = options => options.FlushAfter = TimeSpan.MaxValue,
                ["no transport"] = options => options.Transport = null,
            };
            var taken = wrong.Where(each => {
                var options = Options(new Script(Accept));
                each.Value(options);
                var error = ErrorOf(() => new IngestSender(options).Dispose());
                return !(error is ArgumentException) || error.ToString().Contains("secr");
            });
            Equal(string.Join(", ", taken.Select(each => each.Key)), "");
            Equal(ErrorOf(() => new IngestSender(null)) is ArgumentException, true);
        }

        [Check] private static void ARelativeSpoolIsThatOfTheStart() {
            var options = Options(new Script(Never));
            options.Spool = "relative/spool/";
            var sender = new IngestSender(options);
            var start = Directory.GetCurrentDirectory();
            Directory.CreateDirectory("elsewhere");
            Directory.SetCurrentDirectory("elsewhere");
            sender.Send("{\"n\":1}");
            sender.Dispose();
            Equal(Directory.GetFileSystemEntries(".").Length, 0);
            Directory.SetCurrentDirectory(start);
            Equal(Directory.GetFiles("relative/spool", "0*.spool").Length, 1);
            var next = new IngestSender(options);
            Equal(next.Stats().QueuedEvents, 1L);
            next.Dispose();
        }

        [Check] private static void ASecondSenderOnASpoolIsRefusedUntilTheFirstEnds() {
            var options = Options(new Script(Accept));
            options.Spool = "locked";
            var first = new IngestSender(options);
            Equal(ErrorOf(() => new IngestSender(options)) is IOException, true);
            first.Dispose();
            new IngestSender(options).Dispose();
        }

        [Check] private static void AnInvalidSpoolLeavesNoLock() {
            var options = Options(new Script(Accept));
            options.Spool = "unreadable";
            Directory.CreateDirectory("unreadable");
            // a link to nothing is listed, and cannot be read
            Link("nothing", "unreadable/0000000000000001.demo.spool");
            Equal(ErrorOf(() => new IngestSender(options)) is IOException, true);
            File.Delete("unreadable/0000000000000001.demo.spool");
            new IngestSender(options).Dispose();
        }

        [DllImport("libc", EntryPoint = "symlink")]
        private static extern int Link(string target, string path);

        [Check] private static async Task TheSpoolKeepsOrderAndCountsDamage() {
            var transport = new Script(Accept);
            var options = Options(transport);
            options.Spool = "damaged";
            options.OnDrop = (reason, events, detail) => Equal(reason, "damaged");
            Directory.CreateDirectory("damaged");
            var text = "{\"eventId\":\"a\",\"n\":9}\n{\"eventId\":\"b\",\"s\":\"\u00ff\"}\nnot JSON\n{\"eventId\":\"c\",\"n\":10}\n{\"eventId\":";
            // the second has a byte that is no UTF-8, the last was not written to its end
            File.WriteAllBytes("damaged/0000000000000009.demo.spool", Encoding.GetEncoding(28591).GetBytes(text));
            File.WriteAllText("damaged/0000000000000010.demo.spool", "{\"eventId\":\"d\",\"n\":11}\n");
            File.WriteAllText("damaged/0000000000000011.other.spool", "{\"eventId\":\"e\"}\n");
            var sender = new IngestSender(options);
            sender.Send("{\"n\":12}");
            var stats = await sender.CloseAsync(TimeSpan.FromMinutes(1));
            Equal(stats.Accepted, 4L);
            Equal(stats.Dropped["damaged"], 2L);
            Equal(string.Join(" ", transport.Bodies.Select(body => string.Join(",",
                body.Split('}').Where(part => part.Contains("\"n\":")).Select(part => part.Split(':').Last())))), "9,10 11 12");
            Equal(Directory.GetFiles("damaged", "0*").Single().EndsWith("11.other.spool"), true);
        }

        [Check] private static async Task ASpoolThatWasDeletedIsMadeAgainBesideTheFilesOfAnother() {
            var options = Options(new Script(Never));
            options.Spool = "deleted";
            var sender = new IngestSender(options);
            sender.Send("{\"n\":1}");
            Directory.Delete("deleted", true);
            Directory.CreateDirectory("deleted");
            File.WriteAllText("deleted/0000000000000001.demo.spool", "{\"eventId\":\"other\",\"n\":0}\n");
            sender.Send("{\"n\":2}");
            Equal(sender.Stats().Failure, $"{Path.GetFullPath("deleted")} was deleted: the events in memory are written to it again.");
            sender.Dispose();
            Equal(sender.Stats().QueuedEvents, 2L);
            var transport = new Script(Accept);
            options.Transport = transport;
            Equal((await new IngestSender(options).CloseAsync(TimeSpan.FromMinutes(1))).Accepted, 3L);
            Equal(transport.Bodies[0].Contains("\"n\":0"), true);
        }

        [Check] private static async Task NoFileOfASenderThatHasTakenTheDirectoryIsDeleted() {
            var options = Options(new Script(Accept));
            options.Spool = "taken";
            var sender = new IngestSender(options);
            sender.Send("{\"n\":1}");
            Directory.Move("taken", "taken-away");
            var other = Options(new Script(Never));
            other.Spool = "taken";
            using (var taker = new IngestSender(other)) {
                taker.Send("{\"n\":2}");
                Equal((await sender.CloseAsync(TimeSpan.FromMinutes(1))).Accepted, 1L);
                Equal(Directory.GetFiles("taken", "0*").Length, 1);
            }
        }

        [Check] private static async Task WithoutPermissionForTheSpoolEventsAreInMemory() {
            var options = Options(new Script(Accept));
            options.Spool = "denied/spool";
            var sender = new IngestSender(options);
            sender.Send("{\"n\":1}");
            Directory.Move("denied", "allowed");
            Equal(MakeLink("denied", "denied"), 0); // an endless link, which root may not read either
            sender.Send("{\"n\":2}");
            Equal((await sender.CloseAsync(TimeSpan.FromMinutes(1))).Accepted, 2L);
        }

        [Check] private static void AnEventWhoseFileCannotBeMadeAgainIsNotKept() {
            var options = Options(new Script(Never));
            options.Spool = "blocked";
            var sender = new IngestSender(options);
            sender.Send("{\"n\":1}");
            Directory.Delete("blocked", true);
            File.WriteAllText("blocked", "no directory");
            sender.Dispose();
            Equal(sender.Stats().QueuedEvents, 0L);
            Equal(sender.Stats().Dropped["closed"], 1L);
        }

        [Check] private static async Task AFailureSaysThatA202IsNoResult() {
            var page = new IngestResponse { Status = 202, Body = Encoding.UTF8.GetBytes("<html>") };
            var options = Options(new Script((body, cancel) => Task.FromResult(page), Accept));
            var failures = new List<string>();
            options.OnRetry = (failure, pause) => failures.Add(failure);
            var sender = new IngestSender(options);
            sender.Send("{}");
            await sender.CloseAsync(TimeSpan.FromMinutes(1));
            Equal(string.Join(" ", failures), "The server responded with 202, not with a result of Ingest.");
        }

        [Check] private static async Task ACallbackThatBlocksOrThrowsDoesNotStopSending() {
            var blocks = new ManualResetEventSlim();
            var options = Options(new Script(Status(503), Status(400), Status(503), Accept));
            options.OnRetry = (failure, pause) => blocks.Wait();
            options.OnDrop = (reason, events, detail) => throw new Exception("in OnDrop");
            var sender = new IngestSender(options);
            sender.Send("{}");
            await sender.FlushAsync();
            sender.Send("{}");
            await sender.FlushAsync();
            Equal(sender.Stats().Accepted, 1L);
            var closing = sender.CloseAsync(TimeSpan.FromSeconds(60));
            Until(() => ErrorOf(() => sender.Send("{}")) == null && sender.Stats().Dropped.ContainsKey("closed"));
            blocks.Set();
            Equal((await closing).Failure, "in OnDrop");
        }

        [Check] private static async Task CloseCallsBackForWhatItSentLast() {
            var reasons = new List<string>();
            var options = Options(new Script(Status(413)));
            options.OnDrop = (reason, events, detail) => reasons.Add($"{events.Count} {reason}");
            var sender = new IngestSender(options);
            sender.Send("{}");
            await sender.CloseAsync(TimeSpan.FromMinutes(1));
            Equal(string.Join(",", reasons), "1 too_large");
        }

        [Check] private static async Task OddResultsAreRetried() {
            var results = new[] {
                "{\"accepted\":null,\"duplicates\":1,\"rejected\":[]}", "{\"accepted\":1,\"duplicates\":null,\"rejected\":[]}",
                "{\"accepted\":1e400,\"duplicates\":0,\"rejected\":[]}", "{\"accepted\":1,\"duplicates\":0,\"rejected\":[null]}",
                "{\"accepted\":0,\"duplicates\":0,\"rejected\":[{\"index\":-1,\"issues\":[]}]}",
                "{\"accepted\":0,\"duplicates\":0,\"rejected\":[{\"index\":\"0\",\"issues\":[]}]}",
                "{\"accepted\":-1,\"duplicates\":2,\"rejected\":[]}", "{\"accepted\":0.5,\"duplicates\":0.5,\"rejected\":[]}",
                "\u00ff", new string('[', 100000),
            };
            var steps = results.Select(result => (Func<string, CancellationToken, Task<IngestResponse>>)((body, cancel) =>
                Task.FromResult(new IngestResponse { Status = 202, Body = Encoding.UTF8.GetBytes(result) }))).ToList();
            steps.Add((body, cancel) => Task.FromResult<IngestResponse>(null));
            steps.Add((body, cancel) => Task.FromResult(new IngestResponse { Status = 202, Body = null }));
            steps.Add(Accept);
            var sender = new IngestSender(Options(new Script(steps.ToArray())));
            sender.Send("{}");
            await sender.FlushAsync();
            Equal(sender.Stats().Retries, results.Length + 2L);
            Equal(sender.Stats().Accepted, 1L);
            sender.Dispose();
        }

        /// <summary>A proxy refuses the first body, keeps the connection, and takes the next bytes on it for a bad request.</summary>
        [Check] private static async Task ARefusedBodyDoesNotCostTheNextBatch() {
            var listener = new TcpListener(IPAddress.Loopback, 0);
            listener.Start();
            _ = Task.Run(() => {
                for (var isFirst = true; ; isFirst = false) {
                    var socket = listener.AcceptTcpClient();
                    var status = isFirst ? "413 Content Too Large" : "202 Accepted";
                    Task.Run(() => Respond(socket.GetStream(), status));
                }
            });
            var reasons = new List<string>();
            var options = Options(new HttpClientTransport());
            options.Url = $"http://{listener.LocalEndpoint}";
            options.OnDrop = (reason, events, detail) => reasons.Add(reason);
            var sender = new IngestSender(options);
            sender.Send("{}");
            await sender.FlushAsync();
            sender.Send("{}");
            await sender.FlushAsync();
            var stats = await sender.CloseAsync(TimeSpan.FromMinutes(1));
            Equal(string.Join(",", reasons), "too_large");
            Equal(stats.Accepted, 1L);
        }

        private static void Respond(Stream stream, string status) {
            var received = "";
            var buffer = new byte[65536];
            for (int count; (count = stream.Read(buffer, 0, buffer.Length)) > 0;) {
                received += Encoding.UTF8.GetString(buffer, 0, count);
                if (!received.EndsWith("]}")) continue;
                var body = status.StartsWith("202") ? "{\"accepted\":1,\"duplicates\":0,\"rejected\":[]}" : "";
                var head = Encoding.UTF8.GetBytes($"HTTP/1.1 {status}\r\nContent-Length: {body.Length}\r\n\r\n{body}");
                stream.Write(head, 0, head.Length);
                status = "400 Bad Request";
            }
        }

        [Check] private static async Task NoCallbackGetsAKeyThatAResponseRepeats() {
            var body = "{\"accepted\":0,\"duplicates\":0,\"rejected\":[{\"index\":0,\"issues\":[{\"message\":\"ik_key\"}]}]}";
            var options = Options(new Script(
                (text, cancel) => throw new Exception("Not HTTP: ik_key."),
                (text, cancel) => Task.FromResult(new IngestResponse { Status = 202, Body = Encoding.UTF8.GetBytes(body) })));
            var seen = new List<string>();
            options.OnRetry = (failure, pause) => seen.Add(failure);
            options.OnDrop = (reason, events, detail) => seen.Add(detail);
            var sender = new IngestSender(options);
            sender.Send("{}");
            await sender.CloseAsync(TimeSpan.FromMinutes(1));
            Equal(string.Join(" ", seen), "Not HTTP: [key]. " + body.Replace("ik_key", "[key]"));
        }

        [Check] private static async Task CloseEndsAtOnceAfterA401() {
            var options = Options(new Script(Status(401)));
            options.PauseScale = 1;
            var sender = new IngestSender(options);
            sender.Send("{}");
            var flush = sender.FlushAsync();
            Until(() => sender.Stats().Retries == 1);
            // in less than the five minutes of the pause, also on a slow machine
            var stats = await sender.CloseAsync(TimeSpan.FromSeconds(200));
            Equal(stats.Dropped["closed"], 1L);
            await flush;
        }

        [Check] private static async Task CloseTakesAnyDeadline() {
            foreach (var deadline in new[] { TimeSpan.MaxValue, TimeSpan.Zero, TimeSpan.MinValue, Timeout.InfiniteTimeSpan }) {
                var options = Options(new Script(Accept));
                options.FlushAfter = TimeSpan.FromDays(1); // not due before the close on a slow machine
                var sender = new IngestSender(options);
                sender.Send("{}");
                var stats = await sender.CloseAsync(deadline);
                var isSent = deadline > TimeSpan.Zero || deadline == Timeout.InfiniteTimeSpan;
                Equal(isSent ? stats.Accepted : stats.Dropped["closed"], 1L);
            }
        }

        /// <summary>Continues within the call that wakes the sender: an early turn of another thread.</summary>
        private sealed class Inline : SynchronizationContext {
            public override void Post(SendOrPostCallback callback, object state) => callback(state);
        }

        [Check] private static void NoRequestStartsAfterTheDeadlineOfClose() {
            var transport = new Script(Accept);
            var options = Options(transport);
            options.FlushAfter = TimeSpan.FromDays(1);
            SynchronizationContext.SetSynchronizationContext(new Inline());
            try {
                var sender = new IngestSender(options);
                sender.Send("{}");
                Equal(sender.CloseAsync(TimeSpan.Zero).Result.Dropped["closed"], 1L);
                Equal(transport.Bodies.Count, 0);
            } finally { SynchronizationContext.SetSynchronizationContext(null); }
        }

        [Check] private static async Task DisposeEndsARequestAndMayBeCalledTwice() {
            var isSent = new ManualResetEventSlim();
            var transport = new Script((body, cancel) => {
                cancel.Register(() => throw new Exception("while it is cancelled"));
                isSent.Set();
                return Never(body, cancel);
            });
            var sender = new IngestSender(Options(transport));
            sender.Send("{}");
            var flush = sender.FlushAsync();
            isSent.Wait();
            sender.Dispose();
            sender.Dispose();
            await flush;
            Equal(sender.Stats().Dropped["closed"], 1L);
            Until(() => transport.Running == 0); // nor a thread: it has none of its own
            await sender.FlushAsync();
            Equal((await sender.CloseAsync(TimeSpan.FromMinutes(1))).Dropped["closed"], 1L);
        }

        [Check] private static async Task ATransportThatCannotPauseEndsTheSender() {
            var transport = new Script(Status(503));
            var options = Options(transport);
            options.Spool = "gone";
            var sender = new IngestSender(options);
            transport.DelayFails = new InvalidOperationException("The component is gone.");
            sender.Send("{}");
            await sender.FlushAsync();
            Equal(sender.Stats().QueuedEvents, 1L);
            Equal(sender.Stats().Failure, "The component is gone.");
            await sender.CloseAsync(TimeSpan.FromMinutes(1));
            transport.DelayFails = null;
            new IngestSender(options).Dispose();
        }

        [Check] private static async Task APauseThatFailsInCloseIsNoFailureOfAnAttempt() {
            var transport = new Script(Accept);
            var sender = new IngestSender(Options(transport));
            sender.Send("{}");
            await sender.FlushAsync();
            Until(() => transport.Running == 1); // the pause before the next batch
            transport.DelayFails = new InvalidOperationException("The component is gone.");
            var stats = await sender.CloseAsync(TimeSpan.FromMinutes(1));
            Equal(stats.Accepted, 1L);
            Equal(stats.Failure, null);
        }

        /// <summary>What the table of unusual values says; each event is given as text.</summary>
        [Check] private static async Task UnusualValues() {
            var transport = new Script(Accept);
            var sender = new IngestSender(Options(transport));
            foreach (var kept in new[] {
                "\"\\ud800\"", "-0", "1e400", "9007199254740993", "null", "[]", "{}",
                new string('[', 40) + new string(']', 40),
            }) {
                sender.Send("{\"x\":" + kept + "}");
                await sender.FlushAsync();
                Equal(transport.Bodies.Last().Contains("\"x\":" + kept + "}"), true);
            }
            foreach (var refused in new[] {
                "{\"x\":\"\ud800\"}", "{\"eventId\":\"\\ud800\"}", "{\"eventId\":\"\ud800\"}", "{\"x\":NaN}", "{\"x\":Infinity}",
                "{\"x\":" + new string('[', 100000) + new string(']', 100000) + "}", "null", "", null,
            }) {
                Equal(ErrorOf(() => sender.Send(refused)) is ArgumentException, true);
            }
            Equal(transport.Bodies.Count, 8);
            sender.Dispose();
        }

        [Check] private static void TheBehaviourGivesTheSpoolBackWhenItIsDisabled() {
            UnityEngine.Application.persistentDataPath = Path.GetFullPath("unity");
            var behaviour = new IngestBehaviour();
            typeof(IngestBehaviour).GetField("key", BindingFlags.Instance | BindingFlags.NonPublic).SetValue(behaviour, "ik_key");
            Action<string> call = name => typeof(IngestBehaviour)
                .GetMethod(name, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(behaviour, null);
            // scripts that are compiled in play mode disable and enable it
            for (var round = 0; round < 3; round++) {
                call("OnEnable");
                behaviour.Send(new object());
                call("OnDisable");
            }
            Equal(File.ReadAllLines(Directory.GetFiles("unity/ingest", "0*.spool").Last()).Length, 1);
            Equal(Directory.GetFiles("unity/ingest", "0*.spool").Length, 3);
        }
    }
}
