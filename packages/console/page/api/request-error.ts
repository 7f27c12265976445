const retriedKinds = ['offline', 'foreign', 'unavailable', 'limited'] as const

/**
 * Why a request failed. `foreign`: the response is not from an Ingest server. `unsupported`: the server does not have
 * the route.
 */
export type FailureKind = (typeof retriedKinds)[number] | 'unauthorized' | 'unsupported' | 'refused'

/** The members of a problem document (RFC 9457) that the page uses. */
export interface Problem {
  code?: string
  title?: string
  detail?: string
  requestId?: string
  issues?: { code: string; path: string; message: string }[]
}

export class RequestError extends Error {
  readonly kind: FailureKind
  /** 0 if there was no response. */
  readonly status: number
  readonly problem: Problem
  readonly retryAfterMs: number | undefined

  constructor(
    kind: FailureKind,
    message: string,
    more: { status?: number; problem?: Problem | undefined; retryAfterMs?: number | undefined } = {},
  ) {
    super(message)
    this.kind = kind
    this.status = more.status ?? 0
    this.problem = more.problem ?? {}
    this.retryAfterMs = more.retryAfterMs
  }

  /** Whether the same request may succeed later: it is retried with backoff, after `retryAfterMs` at the earliest. */
  get isRetried(): boolean {
    return (retriedKinds as readonly FailureKind[]).includes(this.kind)
  }
}
