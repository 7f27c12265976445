using System;
using UnityEngine;

[Serializable]
public sealed class RoundStart {
    public string type = "round.start";
    public string buildId;
    public int players;
}

public sealed class Round : MonoBehaviour {
    private void Start() {
        IngestBehaviour.Instance.Send(new RoundStart { buildId = Application.version, players = 4 });
    }
}
