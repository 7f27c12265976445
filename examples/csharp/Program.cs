// Sends events from standard input, one JSON object a line, and prints the response to each batch:
//
//   INGEST_URL=http://127.0.0.1:8787 INGEST_PROJECT_ID=demo INGEST_KEY=ik_… dotnet run < events.ndjson
using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Text;
using System.Threading.Tasks;

public static class Program
{
    private const int BatchEventsMax = 100;
    private const int BatchBytesMax = 262144;
    private static readonly TimeSpan UnauthorizedPause = TimeSpan.FromMinutes(5);
    private static readonly HttpClient Client = new HttpClient { Timeout = TimeSpan.FromSeconds(30) };
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
    private static async Task<bool> Send(IEnumerable<string> events)
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
                    if (status == 202)
                    {
                        Console.WriteLine(text);
                        return true;
                    }
                    if (status == 400 || status == 413)
                    {
                        Console.Error.WriteLine($"dropped: {status} {text}");
                        return false;
                    }
                    if (status != 401 && status != 408 && status != 429 && status < 500)
                        throw new InvalidOperationException($"{status}: check INGEST_URL");
                    if (status == 401) Console.Error.WriteLine("401: sending pauses for 5 minutes");
                    retryAfter = status == 401 ? UnauthorizedPause : response.Headers.RetryAfter?.Delta ?? TimeSpan.Zero;
                }
            }
            catch (Exception error) when (error is HttpRequestException || error is TaskCanceledException)
            {
                // no response: retry
            }
            var backoff = TimeSpan.FromSeconds(Jitter.NextDouble() * boundSeconds);
            await Task.Delay(backoff > retryAfter ? backoff : retryAfter);
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
