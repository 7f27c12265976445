using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace Ingest {
    /// <summary>The address, limits and callbacks of a sender; README.md has a table.</summary>
    public sealed class IngestOptions {
        public string Url { get; set; }
        public string ProjectId { get; set; }
        public string Key { get; set; }
        public TimeSpan FlushAfter { get; set; } = TimeSpan.FromSeconds(2);
        public TimeSpan Timeout { get; set; } = TimeSpan.FromSeconds(30);
        public int QueueEventsMax { get; set; } = 10000;
        public long QueueBytesMax { get; set; } = 16 * 1024 * 1024;
        public string Spool { get; set; }
        public IIngestTransport Transport { get; set; } = new HttpClientTransport();
        public Action<string, IReadOnlyList<string>, string> OnDrop { get; set; }
        public Action<string, TimeSpan> OnRetry { get; set; }
        internal double PauseScale { get; set; } = 1;
    }

    /// <summary>Each event counts once: as accepted, duplicate, queued, or dropped for a reason.</summary>
    public struct IngestStats {
        public long Accepted, Duplicates, Retries, QueuedEvents, QueuedBytes;
        public Dictionary<string, long> Dropped;
        /// <summary>Why the last attempt, callback or write to the spool failed; null after a successful attempt.</summary>
        public string Failure;
    }

    /// <summary>Sends requests and pauses. Replace it where <c>HttpClient</c> cannot run.</summary>
    public interface IIngestTransport {
        /// <summary>Sends JSON once, follows no redirect, and reads the body, up to <c>BytesMax</c>. Throws if that takes
        /// longer than the time-out, or if the response is incomplete, whatever its status.</summary>
        Task<IngestResponse> PostAsync(
            Uri url, Dictionary<string, string> headers, byte[] body, TimeSpan timeout, CancellationToken cancel);
        /// <summary>Throws <see cref="OperationCanceledException"/> when cancelled.</summary>
        Task DelayAsync(TimeSpan time, CancellationToken cancel);
    }

    public sealed class IngestResponse {
        public const int BytesMax = 4 * 1024 * 1024;
        public int Status;
        public string RetryAfter; // as received, or null
        public byte[] Body = new byte[0];
    }

    public sealed class HttpClientTransport : IIngestTransport {
        // each serves one request at a time, and is reused with its connection only after a complete 202: a proxy may send
        // an error before it has read the body, and then read the body as the next request
        private static readonly ConcurrentStack<HttpClient> Idle = new ConcurrentStack<HttpClient>();
        // following a redirect would send the key to another host
        private static HttpClient Create() =>
            new HttpClient(new HttpClientHandler { AllowAutoRedirect = false }) { Timeout = Timeout.InfiniteTimeSpan };

        public Task DelayAsync(TimeSpan time, CancellationToken cancel) => Task.Delay(time, cancel);
        public async Task<IngestResponse> PostAsync(
            Uri url, Dictionary<string, string> headers, byte[] body, TimeSpan timeout, CancellationToken cancel) {
            HttpClient client; // mcs cannot compile it as `out var`
            if (!Idle.TryPop(out client)) client = Create();
            IngestResponse response = null;
            try { response = await PostWithAsync(client, url, headers, body, timeout, cancel).ConfigureAwait(false); }
            finally {
                if (response?.Status == 202) Idle.Push(client);
                else client.Dispose();
            }
            return response;
        }

        private static async Task<IngestResponse> PostWithAsync(HttpClient client,
            Uri url, Dictionary<string, string> headers, byte[] body, TimeSpan timeout, CancellationToken cancel) {
            using (var stop = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            using (var request = new HttpRequestMessage(HttpMethod.Post, url)) {
                stop.CancelAfter(timeout);
                request.Content = new ByteArrayContent(body);
                request.Content.Headers.Add("Content-Type", "application/json");
                foreach (var header in headers) request.Headers.Add(header.Key, header.Value);
                var untilHeaders = HttpCompletionOption.ResponseHeadersRead;
                using (var response = await client.SendAsync(request, untilHeaders, stop.Token).ConfigureAwait(false)) {
                    var pause = response.Headers.FirstOrDefault(each => each.Key == "Retry-After").Value?.First();
                    var result = new IngestResponse { Status = (int)response.StatusCode, RetryAfter = pause };
                    var load = response.Content.LoadIntoBufferAsync(IngestResponse.BytesMax);
                    await Task.WhenAny(load, Task.Delay(-1, stop.Token)).ConfigureAwait(false);
                    stop.Token.ThrowIfCancellationRequested();
                    await load.ConfigureAwait(false);
                    result.Body = await response.Content.ReadAsByteArrayAsync().ConfigureAwait(false);
                    return result;
                }
            }
        }
    }

    /// <summary>Sends events in batches, in their order, until each is stored or dropped. Thread-safe. Runs on the
    /// synchronization context of the constructor, in Unity the main thread.</summary>
    public sealed class IngestSender : IDisposable {
        private const int BatchEventsMax = 100, EventBytesMax = 262144 - 13; // without {"events":[]}
        private const int CallbacksMax = 1000;
        private static readonly TimeSpan Hour = TimeSpan.FromHours(1), Day = TimeSpan.FromDays(1);
        private static readonly Encoding Utf8 = new UTF8Encoding(false, true), Latin1 = Encoding.GetEncoding(28591);
        private sealed class Batch {
            public readonly List<string> Events = new List<string>();
            public readonly TaskCompletionSource<bool> Done =
                new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            public TimeSpan DueAt;
            public bool IsSealed;
            public string Path;
            public int Bytes, Spooled; // of the events, in UTF-8; how many of the first events are in the file
        }

        private readonly object gate = new object();
        private readonly IngestOptions options;
        private readonly Uri url;
        private readonly Stopwatch clock = Stopwatch.StartNew();
        private readonly Random random = new Random(Guid.NewGuid().GetHashCode());
        private readonly List<Batch> batches = new List<Batch>(); // the first may be in flight, the last is filled
        private readonly CancellationTokenSource ending = new CancellationTokenSource();
        private readonly string spool; // absolute: the working directory may change
        private FileStream spoolLock;
        private DateTime spoolLockedAt; // the last write of the lock file: a recreated one has another time
        private readonly TaskScheduler callbackScheduler;
        private Task callbacks = Task.CompletedTask; // completes when all callbacks so far have returned
        private int callbacksPending;
        private CancellationTokenSource wake = new CancellationTokenSource();
        private TimeSpan retryAt, deadlineAt = TimeSpan.MaxValue;
        private double backoffSeconds = 1;
        private long fileNumber;
        private IngestStats stats = new IngestStats { Dropped = new Dictionary<string, long>() };
        private volatile bool isClosing, isEnded;

        /// <exception cref="ArgumentException">An option is missing or out of range.</exception>
        /// <exception cref="IOException">The spool is in use by another process, or cannot be opened.</exception>
        public IngestSender(IngestOptions options) {
            Check(options?.Transport != null, "Options and Transport are required.");
            this.options = options;
            var isUrl = Uri.TryCreate(options.Url, UriKind.Absolute, out var address) && address.UserInfo == ""
                && (address.Scheme == "http" || address.Scheme == "https") && !Regex.IsMatch(options.Url, @"[\s?#]");
            Check(isUrl, "Url must be an http or https address without credentials, query, fragment and white space.");
            url = new Uri(options.Url.TrimEnd('/') + "/v1/events/batch");
            Check(Regex.IsMatch(options.ProjectId ?? "", @"\A[A-Za-z0-9._-]{1,64}\z"), "ProjectId must be 1 to 64 of A-Z a-z 0-9 . _ -.");
            Check(Regex.IsMatch(options.Key ?? "", @"\A[!-~]+\z"), "Key must be visible ASCII characters, without spaces and line breaks.");
            Check(options.Timeout > TimeSpan.Zero && options.Timeout <= Day, "Timeout must be positive, and at most a day.");
            Check(options.FlushAfter >= TimeSpan.Zero && options.FlushAfter <= Day, "FlushAfter must be from zero to a day.");
            Check(options.QueueEventsMax > 0 && options.QueueBytesMax > 0, "The queue must hold an event.");
            var hasContext = SynchronizationContext.Current != null;
            callbackScheduler = hasContext ? TaskScheduler.FromCurrentSynchronizationContext() : TaskScheduler.Default;
            if (!string.IsNullOrEmpty(options.Spool)) {
                spool = Directory.CreateDirectory(options.Spool).FullName;
                spoolLock = LockSpool();
                try { ReadSpool(); } catch {
                    spoolLock.Dispose();
                    throw;
                }
            }
            Run();
        }

        /// <summary>Queues an event, a JSON object as text, and returns its <c>eventId</c>. Adds a missing
        /// <c>eventId</c> and <c>projectId</c>. Drops and counts an event that does not fit, or comes after a close.</summary>
        /// <exception cref="ArgumentException">Not a JSON object, or an invalid <c>eventId</c>.</exception>
        public string Send(string json) {
            var members = ParseObject(json) ?? throw new ArgumentException("An event must be a JSON object.");
            var hasId = members.TryGetValue("eventId", out var given);
            var eventId = hasId ? given as string : Guid.NewGuid().ToString();
            Check(Regex.IsMatch(eventId ?? "", "\\A[^\0-\x1f\x7f]+\\z") && Utf8.GetByteCount(eventId) <= 256,
                "eventId must be a string of 1 to 256 bytes without control characters.");
            var added = members.ContainsKey("projectId") ? "" : $"\"projectId\":\"{options.ProjectId}\",";
            if (!hasId) added += $"\"eventId\":\"{eventId}\",";
            if (members.Count == 0) added = added.TrimEnd(',');
            // line breaks are only between tokens; in the spool they would end the event
            var text = "{" + added + json.Trim().Substring(1).Replace('\r', ' ').Replace('\n', ' ');
            var bytes = Utf8.GetByteCount(text);
            string reason;
            lock (gate) {
                var bytesLeft = options.QueueBytesMax - stats.QueuedBytes;
                var isFull = stats.QueuedEvents >= options.QueueEventsMax || bytes > bytesLeft;
                reason = isClosing ? "closed" : bytes > EventBytesMax ? "too_large" : isFull ? "queue_overflow" : null;
                if (reason == null) Enqueue(text, bytes);
            }
            if (reason != null) Drop(reason, new[] { text }, "The event was not queued.", Try);
            return eventId;
        }

        /// <summary>Sends now. Completes when all earlier events are stored or dropped, or the sender has ended.</summary>
        public Task FlushAsync() {
            lock (gate) {
                if (batches.Count == 0 || isEnded) return Task.CompletedTask;
                batches.Last().DueAt = TimeSpan.Zero;
                wake.Cancel();
                return batches.Last().Done.Task;
            }
        }

        public IngestStats Stats() { lock (gate) return stats; }
        /// <summary>Accepts no further events and sends the queue until the deadline, less if no retry fits: at most a
        /// day, also with <see cref="Timeout.InfiniteTimeSpan"/>. The rest stays in the spool, or is dropped as
        /// <c>closed</c>. A second close can only shorten the deadline.</summary>
        public async Task<IngestStats> CloseAsync(TimeSpan deadline) {
            var isEndless = deadline > Day || deadline == Timeout.InfiniteTimeSpan;
            deadline = isEndless ? Day : deadline < TimeSpan.Zero ? TimeSpan.Zero : deadline;
            lock (gate) {
                isClosing = true;
                if (clock.Elapsed + deadline < deadlineAt) deadlineAt = clock.Elapsed + deadline;
                wake.Cancel();
            }
            if (deadline > TimeSpan.Zero) await PauseAsync(deadline, ending.Token);
            End();
            Task left;
            TimeSpan time;
            lock (gate) {
                left = callbacks;
                time = deadlineAt - clock.Elapsed;
            }
            using (var returned = new CancellationTokenSource()) {
                if (time > TimeSpan.Zero) await Task.WhenAny(left, PauseAsync(time, returned.Token));
                returned.Cancel();
            }
            return Stats();
        }

        /// <summary>Ends at once and cancels a request in flight. May be called more than once.</summary>
        public void Dispose() => End();

        private async void Run() {
            while (!isEnded) {
                Batch batch;
                TimeSpan pause;
                CancellationToken woken;
                bool isLate; // no request may start before the deadline of a close
                lock (gate) {
                    if (wake.IsCancellationRequested) wake = new CancellationTokenSource();
                    woken = wake.Token; // cancelled by any later change
                    batch = batches.FirstOrDefault();
                    var isDue = isClosing || batches.Count > 1 || batch?.Events.Count == BatchEventsMax;
                    var dueAt = batch == null ? clock.Elapsed + Hour : isDue ? TimeSpan.Zero : batch.DueAt;
                    var now = clock.Elapsed;
                    pause = (dueAt > retryAt ? dueAt : retryAt) - now;
                    isLate = (retryAt > now ? retryAt : now) >= deadlineAt;
                    if (batch != null && pause <= TimeSpan.Zero) batch.IsSealed = true;
                }
                if (isClosing && (batch == null || isLate)) End();
                else if (pause <= TimeSpan.Zero) await AttemptAsync(batch);
                else {
                    var fault = await PauseAsync(pause, woken);
                    if (fault == null) continue;
                    lock (gate) stats.Failure = fault;
                    End(); // without pauses it would send in a tight loop
                }
            }
        }

        private async Task AttemptAsync(Batch batch) {
            var response = new IngestResponse();
            var failure = "It timed out.";
            var text = "";
            Dictionary<string, object> result = null;
            List<string> rejected = null;
            try {
                var headers = new Dictionary<string, string> { ["X-Project-Id"] = options.ProjectId };
                headers["X-Ingestion-Key"] = options.Key;
                var body = Utf8.GetBytes("{\"events\":[" + string.Join(",", batch.Events) + "]}");
                response = await options.Transport.PostAsync(url, headers, body, options.Timeout, ending.Token);
                failure = $"The server responded with {response.Status}{(response.Status == 202 ? ", not with a result of Ingest" : "")}.";
                text = Encoding.UTF8.GetString(response.Body);
                result = ParseObject(response.Status == 202 ? text : null);
                rejected = FindRejected(result, batch.Events);
            } catch (OperationCanceledException) {
            } catch (Exception error) { failure = Clean(error.GetBaseException().Message); }
            response = response ?? new IngestResponse();
            var isDropped = response.Status == 400 || response.Status == 413;
            lock (gate) {
                if (isEnded) return;
                stats.Failure = rejected == null ? failure : null;
                stats.Accepted += rejected == null ? 0 : Whole(result, "accepted");
                stats.Duplicates += rejected == null ? 0 : Whole(result, "duplicates");
                if (rejected != null || isDropped) Remove(batch);
            }
            if (rejected != null) Drop("rejected", rejected, Clean(text), Notify);
            else if (isDropped) Drop(response.Status == 400 ? "bad_request" : "too_large", batch.Events, failure, Notify);
            else PauseBeforeRetry(response, failure);
            if (rejected != null || isDropped) batch.Done.TrySetResult(true);
        }

        /// <summary>For callbacks and <c>Failure</c>: a response may repeat the key, and one of its control characters,
        /// such as a line feed, would forge a line of a log. Between tokens of JSON, a space means the same.</summary>
        private string Clean(string text) => Regex.Replace(text.Replace(options.Key, "[key]"), @"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]", " ");

        private void PauseBeforeRetry(IngestResponse response, string failure) {
            var isUnauthorized = response.Status == 401 || response.Status == 403;
            var backoff = TimeSpan.FromSeconds(random.NextDouble() * backoffSeconds);
            var pause = isUnauthorized ? TimeSpan.FromMinutes(5) : ParseRetryAfter(response.RetryAfter) + backoff;
            backoffSeconds = isUnauthorized ? 1 : Math.Min(backoffSeconds * 2, 60);
            retryAt = clock.Elapsed + TimeSpan.FromTicks((long)(pause.Ticks * options.PauseScale));
            lock (gate) stats.Retries++;
            Notify(() => options.OnRetry?.Invoke(failure, pause));
        }

        /// <summary>Null after the pause, also if it was cancelled; otherwise why the transport cannot pause.</summary>
        private async Task<string> PauseAsync(TimeSpan time, CancellationToken woken) {
            try { await options.Transport.DelayAsync(time, woken); }
            catch (OperationCanceledException) { await Task.Yield(); } // lets the call that cancelled the pause return
            catch (Exception error) { return error.Message; }
            return null;
        }

        private void End() {
            lock (ending) { // until the drops are counted
                if (isEnded) return;
                List<string> lost;
                lock (gate) {
                    isClosing = isEnded = true;
                    RenewSpool();
                    foreach (var batch in batches) Restore(batch); // single files may have been deleted too
                    lost = batches.SelectMany(batch => batch.Events.Skip(batch.Spooled)).ToList();
                    stats.QueuedEvents -= lost.Count;
                    stats.QueuedBytes -= lost.Sum(text => (long)Utf8.GetByteCount(text));
                    spoolLock?.Dispose();
                }
                Drop("closed", lost, "The sender was closed.", Try);
            }
            Try(ending.Cancel); // throws what a transport throws
            wake.Cancel();
            foreach (var batch in batches) batch.Done.TrySetResult(false);
        }

        private void Enqueue(string text, int bytes) {
            RenewSpool();
            var batch = batches.LastOrDefault();
            if (batch == null || batch.IsSealed || batch.Events.Count == BatchEventsMax
                || batch.Bytes + batch.Events.Count + bytes > EventBytesMax) { // with a comma for each event
                batches.Add(batch = new Batch { DueAt = clock.Elapsed + options.FlushAfter });
                wake.Cancel();
            }
            if (spoolLock != null && batch.Spooled == batch.Events.Count) Append(batch, text);
            Add(batch, text, bytes);
            if (batch.Events.Count == BatchEventsMax) wake.Cancel();
        }

        private void Add(Batch batch, string text, int bytes) {
            batch.Events.Add(text);
            batch.Bytes += bytes;
            stats.QueuedEvents++;
            stats.QueuedBytes += bytes;
        }

        private void Remove(Batch batch) {
            RenewSpool(); // otherwise this might delete a file of another sender
            backoffSeconds = 1;
            batches.Remove(batch);
            stats.QueuedEvents -= batch.Events.Count;
            stats.QueuedBytes -= batch.Bytes;
            if (batch.Path != null) Try(() => File.Delete(batch.Path));
        }

        private void Drop(string reason, IReadOnlyList<string> events, string detail, Action<Action> call, int unreadable = 0) {
            if (events.Count + unreadable == 0) return;
            lock (gate) {
                stats.Dropped.TryGetValue(reason, out var count);
                // copied: earlier results of Stats share the dictionary
                stats.Dropped = new Dictionary<string, long>(stats.Dropped);
                stats.Dropped[reason] = count + events.Count + unreadable;
            }
            call(() => options.OnDrop?.Invoke(reason, events, detail));
        }

        /// <summary>Queues a callback, so that one that blocks does not delay sending.</summary>
        private void Notify(Action callback) {
            lock (gate) {
                if (callbacksPending == CallbacksMax) return;
                callbacksPending++;
                callbacks = callbacks.ContinueWith(_ => {
                    Try(callback);
                    lock (gate) callbacksPending--;
                }, CancellationToken.None, TaskContinuationOptions.None, callbackScheduler);
            }
        }

        private void Try(Action action) {
            try { action(); }
            catch (Exception error) { lock (gate) stats.Failure = error.Message; }
        }

        // the spool has a file for each batch, with one event per line; it is deleted when the batch is stored or dropped
        private string SpoolPath(string name) => Path.Combine(spool, $"{name}.{options.ProjectId}.spool");
        private FileStream LockSpool() {
            FileStream file = null;
            try {
                file = new FileStream(SpoolPath("lock"), FileMode.OpenOrCreate, FileAccess.Write, FileShare.None);
                spoolLockedAt = File.GetLastWriteTimeUtc(SpoolPath("lock"));
                file.Lock(0, 1); // Mono needs it, macOS has none
            } catch (PlatformNotSupportedException) {
            } catch (IOException error) {
                file?.Dispose();
                throw new IOException($"{spool} is in use by another sender, or cannot be locked.", error);
            }
            return file;
        }

        private void ReadSpool() {
            var damaged = 0;
            foreach (var path in Directory.GetFiles(spool).OrderBy(path => path, StringComparer.Ordinal)) {
                long.TryParse(Path.GetFileName(path).Split('.')[0], out var number);
                if (path != SpoolPath(number.ToString("D16"))) continue;
                fileNumber = number;
                var batch = new Batch { Path = path, IsSealed = true };
                var lines = Latin1.GetString(File.ReadAllBytes(path)).Split('\n');
                foreach (var line in lines.Take(lines.Length - 1)) { // the last was not written to its end
                    string text = null;
                    try { text = Utf8.GetString(Latin1.GetBytes(line)); } catch (ArgumentException) { }
                    if (ParseObject(text) == null) damaged++;
                    else Add(batch, text, line.Length);
                }
                batch.Spooled = batch.Events.Count;
                if (batch.Spooled > 0) batches.Add(batch);
                else File.Delete(path);
            }
            Drop("damaged", new string[0], "Unreadable in the spool.", Try, damaged);
        }

        /// <summary>Recreates a spool whose directory was deleted or moved, with the events in memory.</summary>
        private void RenewSpool() {
            var lockedAt = spoolLockedAt;
            if (spoolLock != null) Try(() => lockedAt = File.GetLastWriteTimeUtc(SpoolPath("lock"))); // fails without permission
            if (lockedAt == spoolLockedAt) return;
            stats.Failure = $"{spool} was deleted: the events in memory are written to it again.";
            spoolLock.Dispose();
            spoolLock = null;
            Try(() => {
                Directory.CreateDirectory(spool);
                spoolLock = LockSpool();
            });
            foreach (var batch in batches) Restore(batch);
        }

        /// <summary>Writes the file of a batch again if it was deleted. Otherwise its events are in memory only.</summary>
        private void Restore(Batch batch) {
            var spooled = batch.Events.Take(batch.Spooled).ToList();
            batch.Spooled = 0;
            if (spoolLock == null) batch.Path = null; // by now, the file may be another sender's
            if (spoolLock == null || spooled.Count == 0) return;
            Try(() => {
                // the file of that name may belong to another sender, which used the directory meanwhile
                while (File.Exists(batch.Path) && spooled.Except(File.ReadLines(batch.Path)).Any()) batch.Path = NextPath();
                if (!File.Exists(batch.Path)) File.WriteAllText(batch.Path, string.Join("\n", spooled) + "\n");
                batch.Spooled = spooled.Count;
            });
        }

        private string NextPath() => SpoolPath((++fileNumber).ToString("D16"));

        // once the operating system has the event, it outlives the process, but not a power loss
        private void Append(Batch batch, string text) => Try(() => {
            batch.Path = batch.Path ?? NextPath();
            File.AppendAllText(batch.Path, text + "\n");
            batch.Spooled++;
        });

        /// <summary>Seconds or a date, at most an hour; zero for anything else.</summary>
        private static TimeSpan ParseRetryAfter(string value) {
            var isDate = DateTimeOffset.TryParseExact(value, "r", CultureInfo.InvariantCulture, 0, out var date);
            var time = isDate ? date - DateTimeOffset.UtcNow : TimeSpan.Zero;
            var isNumber = Regex.IsMatch(value ?? "", @"\A[0-9]{1,99}\z");
            if (isNumber) time = TimeSpan.FromSeconds(Math.Min(double.Parse(value), 3600));
            return time < TimeSpan.Zero ? TimeSpan.Zero : time > Hour ? Hour : time;
        }

        private static void Check(bool isTrue, string message) { if (!isTrue) throw new ArgumentException(message); }
        /// <summary>The rejected events; null for a result that does not account for each event, as of a proxy.</summary>
        private static List<string> FindRejected(Dictionary<string, object> result, List<string> events) {
            object list = null;
            if (result?.TryGetValue("rejected", out list) != true || !(list is List<object> entries)) return null;
            var indexes = new HashSet<int>(entries.OfType<Dictionary<string, object>>()
                .Where(each => each.TryGetValue("issues", out var issues) && issues is List<object>)
                .Select(each => Whole(each, "index")).Where(at => at >= 0 && at < events.Count));
            var sum = Whole(result, "accepted") + Whole(result, "duplicates") + indexes.Count;
            var isComplete = sum == events.Count && indexes.Count == entries.Count;
            return isComplete ? indexes.Select(at => events[at]).ToList() : null;
        }

        /// <summary>A count of events, or a number that makes any sum wrong.</summary>
        private static int Whole(Dictionary<string, object> members, string name) {
            var number = members.TryGetValue(name, out var value) && value is double ? (double)value : -1;
            return number >= 0 && number <= BatchEventsMax && number % 1 == 0 ? (int)number : -1000;
        }

        private static readonly Regex Tokens = new Regex(@"\A[ \t\r\n]*(?>(?<token>[{}\[\],:]|true|false|null"
            + @"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
            + @"|""(?>[^""\\\x00-\x1f]+|\\(?:[""\\/bfnrt]|u[0-9a-fA-F]{4}))*"")[ \t\r\n]*)*\z");

        /// <summary>The members of a JSON object, with null for true, false and null; null for any other text.</summary>
        private static Dictionary<string, object> ParseObject(string json) {
            var captures = Tokens.Match(json ?? "").Groups["token"].Captures.Cast<Capture>();
            var tokens = new Queue<string>(captures.Select(capture => capture.Value).Append("")); // "" marks the end
            try {
                var value = ParseValue(tokens, 0) as Dictionary<string, object>;
                return tokens.Count == 1 ? value : null;
            } catch (ArgumentException) { return null; }
        }

        private static object ParseValue(Queue<string> tokens, int depth) {
            var token = tokens.Dequeue();
            Check(depth <= 64 && !",:]}".Contains(token), "not JSON");
            if (token[0] == '"') return Regex.Unescape(token.Substring(1, token.Length - 2));
            var isNumber = double.TryParse(token, NumberStyles.Float, CultureInfo.InvariantCulture, out var number);
            if (token != "{" && token != "[") return isNumber ? number : (object)null;
            var members = new Dictionary<string, object>();
            var items = new List<object>();
            var end = token == "{" ? "}" : "]";
            for (token = tokens.Peek() == end ? tokens.Dequeue() : ","; token != end; token = tokens.Dequeue()) {
                Check(token == ",", "not JSON");
                items.Add(ParseValue(tokens, depth + 1));
                if (end == "]") continue;
                Check(items.Last() is string && tokens.Dequeue() == ":", "not JSON");
                members[(string)items.Last()] = ParseValue(tokens, depth + 1);
            }
            return end == "}" ? members : (object)items;
        }
    }
}
