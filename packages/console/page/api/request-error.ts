/**
 * Why a request failed. The kind decides about retries: `offline` and `unavailable` are retried with backoff, `limited`
 * after `retryAfterMs`; the others are not retried. `unsupported`: the server does not have the route.
 */
export type FailureKind = 'offline' | 'unavailable' | 'limited' | 'unauthorized' | 'unsupported' | 'refused'

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
    more: { status?: number; problem?: Problem; retryAfterMs?: number | undefined } = {},
  ) {
    super(message)
    this.kind = kind
    this.status = more.status ?? 0
    this.problem = more.problem ?? {}
    this.retryAfterMs = more.retryAfterMs
  }

  /** Whether the same request may succeed later. */
  get isRetried(): boolean {
    return this.kind === 'offline' || this.kind === 'unavailable' || this.kind === 'limited'
  }
}

/** The error for a response that is neither 2xx nor 304; reads its body. */
export async function toRequestError(response: Response): Promise<RequestError> {
  const { status } = response
  const problem = await readProblem(response)
  const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN)
  return new RequestError(kindOf(status, problem), problem.detail ?? `The server responded with ${status}.`, {
    status,
    problem,
    retryAfterMs: Number.isFinite(seconds) ? seconds * 1000 : undefined,
  })
}

function kindOf(status: number, { code }: Problem): FailureKind {
  if (status === 401) return 'unauthorized'
  if (status === 429) return 'limited'
  if (status === 404 && (code === 'not-found' || code === undefined)) return 'unsupported'
  // a proxy's response for an unreachable server has no code
  if (status >= 500) return code === undefined ? 'offline' : 'unavailable'
  return 'refused'
}

async function readProblem(response: Response): Promise<Problem> {
  try {
    return ((await response.json()) as Problem | null) ?? {}
  } catch {
    return {}
  }
}
