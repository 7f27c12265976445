// Declarations of what the sender uses of Unity, so that its files can be compiled without it.
using System;
using System.Collections;

namespace UnityEngine {
    public sealed class SerializeField : Attribute { }

    public class Object {
        public static void Destroy(Object target) { }
        public static void DontDestroyOnLoad(Object target) { }
    }

    public sealed class GameObject : Object { }

    public class MonoBehaviour : Object {
        public GameObject gameObject;
        public Coroutine StartCoroutine(IEnumerator routine) => null;
    }

    public sealed class Coroutine { }

    public static class Time {
        public static double realtimeSinceStartupAsDouble => 0;
    }

    public static class Application {
        public static string persistentDataPath = "";
        public static string version => "";
    }

    public static class Debug {
        public static void Log(object message) { }
        public static void LogWarning(object message) { }
    }

    public static class JsonUtility {
        public static string ToJson(object source) => "{}";
    }
}

namespace UnityEngine.Networking {
    public class UploadHandler {
        public string contentType { get; set; }
    }

    public sealed class UploadHandlerRaw : UploadHandler {
        public UploadHandlerRaw(byte[] data) { }
    }

    public class DownloadHandler { }

    public class DownloadHandlerScript : DownloadHandler {
        protected virtual bool ReceiveData(byte[] data, int dataLength) => true;
    }

    public class UnityWebRequest : IDisposable {
        public enum Result { InProgress, Success, ConnectionError, ProtocolError, DataProcessingError }

        public const string kHttpVerbPOST = "POST";
        public UnityWebRequest(string url, string method) { }
        public UploadHandler uploadHandler { get; set; }
        public DownloadHandler downloadHandler { get; set; }
        public int redirectLimit { get; set; }
        public Result result => Result.Success;
        public string error => "";
        public long responseCode => 0;
        public bool isDone => true;
        public void SetRequestHeader(string name, string value) { }
        public string GetResponseHeader(string name) => null;
        public object SendWebRequest() => null;
        public void Abort() { }
        public void Dispose() { }
    }
}
