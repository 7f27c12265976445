using System.IO;
using Ingest;
using UnityEngine;

/// <summary>Keeps one sender for the whole game. Add it to a GameObject of the first scene.</summary>
public sealed class IngestBehaviour : MonoBehaviour {
    [SerializeField] private string url = "https://ingest.example";
    [SerializeField] private string projectId = "game-1";
    [SerializeField] private string key = "";
    private IngestSender sender;

    public static IngestBehaviour Instance { get; private set; }

    /// <summary>Sends an object of a [Serializable] class, on the main thread.</summary>
    public string Send(object gameEvent) => sender.Send(JsonUtility.ToJson(gameEvent));

    // also called after scripts are compiled in play mode, unlike Awake
    private void OnEnable() {
        if (Instance != null && Instance != this) {
            Destroy(gameObject); // the first scene was loaded again
            return;
        }
        Instance = this;
        DontDestroyOnLoad(gameObject);
        sender = new IngestSender(new IngestOptions {
            Url = url,
            ProjectId = projectId,
            Key = key,
            Spool = Path.Combine(Application.persistentDataPath, "ingest"),
            Transport = new UnityWebRequestTransport(this),
            OnDrop = (reason, events, detail) => Debug.LogWarning($"Ingest dropped {events.Count}: {reason}. {detail}"),
            OnRetry = (failure, pause) => Debug.Log($"Ingest retries in {pause.TotalSeconds:0} s. {failure}"),
        });
    }

    private void OnApplicationPause(bool isPaused) {
        if (isPaused) sender?.FlushAsync();
    }

    // also called when the game quits, and before scripts are compiled in play mode
    private void OnDisable() => sender?.Dispose();
}
