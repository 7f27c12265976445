#if UNITY_2021_2_OR_NEWER
using System;
using System.Collections;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;
using UnityEngine.Networking;

namespace Ingest {
    /// <summary>Sends through <c>UnityWebRequest</c>, in coroutines of a component, on the main thread only.</summary>
    public sealed class UnityWebRequestTransport : IIngestTransport {
        private readonly MonoBehaviour host;

        /// <summary>Dispose of the sender before this component is disabled: that ends its coroutines.</summary>
        public UnityWebRequestTransport(MonoBehaviour host) => this.host = host;

        public Task DelayAsync(TimeSpan time, CancellationToken cancel) {
            var done = new TaskCompletionSource<bool>();
            // the coroutines of a component that is deactivated or destroyed do not run to their end
            cancel.Register(() => done.TrySetCanceled());
            host.StartCoroutine(Delay(time, cancel, done));
            return done.Task;
        }

        public Task<IngestResponse> PostAsync(
            Uri url, Dictionary<string, string> headers, byte[] body, TimeSpan timeout, CancellationToken cancel) {
            var request = new UnityWebRequest(url.AbsoluteUri, UnityWebRequest.kHttpVerbPOST) {
                uploadHandler = new UploadHandlerRaw(body) { contentType = "application/json" },
                downloadHandler = new BoundedDownload(),
                // following a redirect would send the key to another host
                redirectLimit = 0,
            };
            foreach (var header in headers) request.SetRequestHeader(header.Key, header.Value);
            var done = new TaskCompletionSource<IngestResponse>();
            cancel.Register(() => done.TrySetCanceled());
            host.StartCoroutine(Post(request, timeout, cancel, done));
            return done.Task;
        }

        private static IEnumerator Delay(TimeSpan time, CancellationToken cancel, TaskCompletionSource<bool> done) {
            var endsAt = Time.realtimeSinceStartupAsDouble + time.TotalSeconds;
            while (Time.realtimeSinceStartupAsDouble < endsAt && !cancel.IsCancellationRequested) yield return null;
            if (cancel.IsCancellationRequested) done.TrySetCanceled();
            else done.TrySetResult(true);
        }

        private static IEnumerator Post(
            UnityWebRequest request, TimeSpan timeout, CancellationToken cancel, TaskCompletionSource<IngestResponse> done) {
            using (request) {
                var endsAt = Time.realtimeSinceStartupAsDouble + timeout.TotalSeconds;
                request.SendWebRequest();
                while (!request.isDone && Time.realtimeSinceStartupAsDouble < endsAt && !cancel.IsCancellationRequested) {
                    yield return null;
                }
                var isCut = request.result == UnityWebRequest.Result.ConnectionError
                    || request.result == UnityWebRequest.Result.DataProcessingError;
                if (!request.isDone) {
                    request.Abort();
                    done.TrySetCanceled();
                } else if (isCut) {
                    done.TrySetException(new IOException(request.error));
                } else {
                    done.TrySetResult(new IngestResponse {
                        Status = (int)request.responseCode,
                        RetryAfter = request.GetResponseHeader("Retry-After"),
                        Body = ((BoundedDownload)request.downloadHandler).ToArray(),
                    });
                }
            }
        }

        private sealed class BoundedDownload : DownloadHandlerScript {
            private readonly MemoryStream body = new MemoryStream();

            public byte[] ToArray() => body.ToArray();

            protected override bool ReceiveData(byte[] data, int length) {
                body.Write(data, 0, length);
                return body.Length <= IngestResponse.BytesMax; // false aborts the request
            }
        }
    }
}
#endif
