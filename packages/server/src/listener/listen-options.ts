/** A certificate and its private key, in PEM. */
export interface TlsMaterial {
  /** The certificate of the server, followed by the intermediate ones. */
  cert: string | Buffer
  /** Its private key, not encrypted. */
  key: string | Buffer
}

/** Where a server listens. */
export interface ListenOptions {
  /** Default: `127.0.0.1`, reachable from this machine only. */
  host?: string
  /** 0 for any free port. */
  port?: number
  /**
   * The path of a Unix socket, in place of `host` and `port`. The file of a server that has ended is replaced; the file
   * is removed on close.
   */
  socket?: string
  /** The mode of the socket's file. Default: 0o660. */
  socketMode?: number
  /** Serves HTTPS, with TLS 1.2 or later. Default: HTTP. */
  tls?: TlsMaterial
  /** How long a whole request may take to arrive. Default: 30,000. */
  requestTimeoutMs?: number
  /** How long `close` waits for requests in flight. Default: 10,000. */
  closeTimeoutMs?: number
}

/** A listening server. */
export interface Served {
  /** `http://127.0.0.1:8787`, or `unix:/run/ingest.sock` */
  url: string
  /** 0 for a Unix socket. */
  port: number
  /**
   * Uses another certificate for new connections. If it throws, the current one stays in use.
   *
   * @throws {IngestError} `invalid-argument` for material that cannot be used, and for a server without TLS
   */
  reloadTls(material: TlsMaterial): void
  /**
   * Drains the server. New requests get a 503. The server listens until the requests in flight are done, at least for
   * 500 ms and at most for `closeTimeoutMs`, then closes every connection. Resolves when all are closed. Does
   * not close the Ingest. Every call returns the same promise.
   */
  close(): Promise<void>
}
