// Sends events from standard input, one JSON object a line, and prints the response to each batch:
//
//   INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… dotnet run < events.ndjson
using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;

public static class Program
{
    private const int BatchEventsMax = 100;
    private const int BatchBytesMax = 262144;
    private static readonly TimeSpan UnauthorizedPause = TimeSpan.FromMinutes(5);
    private static readonly TimeSpan RetryAfterMax = TimeSpan.FromHours(1);
    // following a redirect would send the key to another host
    private static readonly HttpClient Client =
        new HttpClient(new HttpClientHandler { AllowAutoRedirect = false }) { Timeout = TimeSpan.FromSeconds(30) };
    private static readonly Random Jitter = new Random();
    private static readonly Encoding Utf8 = new UTF8Encoding(false);

    public static async Task<int> Main()
    {
        Console.SetIn(new System.IO.StreamReader(Console.OpenStandardInput(), Utf8));
        var allStored = true;
        var events = new List<string>();
        var size = 0;
        for (var line = Console.ReadLine(); line != null; line = Console.ReadLine())
        {
            if (line.Trim().Length == 0) continue;
            var bytes = Utf8.GetByteCount(line) + 1;
            if (events.Count > 0 && (events.Count == BatchEventsMax || size + bytes + 13 > BatchBytesMax))
            {
                allStored &= await Send(events);
                events.Clear();
                size = 0;
            }
            events.Add(line);
            size += bytes;
        }
        if (events.Count > 0) allStored &= await Send(events);
        return allStored ? 0 : 1;
    }

    /// <summary>Sends a batch until it is stored or refused. Every retry has the same bytes.</summary>
    private static async Task<bool> Send(IReadOnlyCollection<string> events)
    {
        var body = Utf8.GetBytes("{\"events\":[" + string.Join(",", events) + "]}");
        for (var boundSeconds = 1.0; ; boundSeconds = Math.Min(boundSeconds * 2, 60))
        {
            var retryAfter = TimeSpan.Zero;
            try
            {
                using (var response = await Post(body))
                {
                    var status = (int)response.StatusCode;
                    var text = await response.Content.ReadAsStringAsync();
                    if (status == 202 && IsResult(text, events.Count))
                    {
                        Console.WriteLine(text);
                        return true;
                    }
                    if (status == 400 || status == 413)
                    {
                        Console.Error.WriteLine($"dropped: {status} {text}");
                        return false;
                    }
                    Console.Error.WriteLine(status == 401 ? "401: sending pauses for 5 minutes" : $"retrying: {status}");
                    retryAfter = status == 401 ? UnauthorizedPause : RetryAfter(response.Headers.RetryAfter);
                }
            }
            catch (Exception error) when (error is HttpRequestException || error is TaskCanceledException)
            {
                Console.Error.WriteLine($"retrying: {error.Message}");
            }
            var backoff = TimeSpan.FromSeconds(Jitter.NextDouble() * boundSeconds);
            await Task.Delay(backoff > retryAfter ? backoff : retryAfter);
        }
    }

    /// <summary>Seconds or a date, at most an hour; zero for anything else.</summary>
    private static TimeSpan RetryAfter(RetryConditionHeaderValue value)
    {
        var wait = value?.Delta ?? value?.Date - DateTimeOffset.UtcNow ?? TimeSpan.Zero;
        return wait < TimeSpan.Zero ? TimeSpan.Zero : wait > RetryAfterMax ? RetryAfterMax : wait;
    }

    /// <summary>Whether a response accounts for each event of a batch. That of a proxy does not.</summary>
    private static bool IsResult(string text, int count)
    {
        try
        {
            using (var result = JsonDocument.Parse(text))
            {
                var root = result.RootElement;
                var accepted = root.GetProperty("accepted").GetInt32();
                var duplicates = root.GetProperty("duplicates").GetInt32();
                var rejected = root.GetProperty("rejected").GetArrayLength();
                return accepted >= 0 && duplicates >= 0 && accepted + duplicates + rejected == count;
            }
        }
        catch (Exception error)
            when (error is JsonException || error is KeyNotFoundException || error is InvalidOperationException || error is FormatException)
        {
            return false;
        }
    }

    private static Task<HttpResponseMessage> Post(byte[] body)
    {
        var url = Environment.GetEnvironmentVariable("INGEST_URL") + "/v1/events/batch";
        var request = new HttpRequestMessage(HttpMethod.Post, url) { Content = new ByteArrayContent(body) };
        request.Content.Headers.ContentType = new MediaTypeHeaderValue("application/json");
        request.Headers.Add("X-Project-Id", Environment.GetEnvironmentVariable("INGEST_PROJECT_ID"));
        request.Headers.Add("X-Ingestion-Key", Environment.GetEnvironmentVariable("INGEST_KEY"));
        return Client.SendAsync(request);
    }
}
