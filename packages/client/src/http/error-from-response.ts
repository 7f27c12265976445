import { type ErrorCode, errorCodes, IngestError, type Issue } from '@ingest/core'

/**
 * What `Retry-After` asks for, in whole seconds from `now`, rounded up: it comes as seconds or as an HTTP date (RFC 9110
 * section 10.2.3). Undefined for anything else.
 */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value)
  const at = datePattern.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - now) / 1000))
}

/** The one form that a date may still be sent in. */
const datePattern = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** An answer that is not a 2xx. */
export interface Refused {
  status: number
  /** By lower-case name. */
  headers: Readonly<Record<string, string | undefined>>
  body: string
}

/** What is shown of a text that somebody else wrote. */
const textMax = 1000

const codeByStatus: Readonly<Record<number, ErrorCode>> = {
  400: 'malformed-request',
  401: 'unauthorized',
  403: 'unauthorized',
  404: 'not-found',
  405: 'method-not-allowed',
  408: 'request-timeout',
  412: 'precondition-failed',
  413: 'body-too-large',
  416: 'range-not-satisfiable',
  429: 'rate-limited',
  431: 'headers-too-large',
  500: 'internal-error',
  502: 'connection-failed',
  503: 'overloaded',
  504: 'connection-failed',
}

/**
 * The error that a response stands for: with the code and the details of its problem document (RFC 9457), or, if it is
 * from something in between or from a newer server, with the code that the status stands for. Whether to retry is
 * decided by the `status` alone.
 */
export function refusalOf({ status, headers, body }: Refused, now: number): IngestError {
  const headerSeconds = parseRetryAfter(headers['retry-after'], now)
  if (status < 400) return redirected(status, headers.location, headerSeconds)
  const problem = parseProblem(headers['content-type'], body)
  const code = isErrorCode(problem.code) ? problem.code : codeOf(status)
  const message = isText(problem.detail)
    ? problem.detail.slice(0, textMax)
    : `The answer was ${status}, and does not say why: it may be of a proxy, or of something that is no Ingest.`
  const retryAfter = headerSeconds ?? problem.retryAfter
  return new IngestError(code, message, {
    status,
    ...(isWhole(retryAfter) && { retryAfterSeconds: retryAfter }),
    ...(isWhole(problem.limit) && { limit: problem.limit }),
    ...(isWhole(problem.actual) && { actual: problem.actual }),
    ...(Array.isArray(problem.issues) && { issues: problem.issues.filter(isIssue) }),
  })
}

/** The refusal of a 2xx that is not what the contract says. */
export function unexpectedAnswer(what: string): IngestError {
  return new IngestError('unexpected-answer', `The answer is not one of an Ingest server: ${what}. Is the url right?`)
}

function redirected(status: number, location = 'nowhere', retryAfterSeconds?: number): IngestError {
  const message = `The answer was a redirect, ${status} to ${location.slice(0, textMax)}, and none is followed.`
  return new IngestError('unexpected-answer', message, {
    status,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  })
}

function codeOf(status: number): ErrorCode {
  return codeByStatus[status] ?? (status >= 500 ? 'overloaded' : 'unexpected-answer')
}

function parseProblem(type: string | undefined, body: string): Record<string, unknown> {
  if (!/^application\/(problem\+)?json\b/i.test(type ?? '')) return {}
  try {
    const problem = JSON.parse(body)
    return typeof problem === 'object' && problem !== null ? problem : {}
  } catch {
    return {}
  }
}

function isErrorCode(value: unknown): value is ErrorCode {
  return (errorCodes as readonly unknown[]).includes(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isIssue(value: Partial<Record<keyof Issue, unknown>> | null): value is Issue {
  return isText(value?.code) && typeof value?.path === 'string' && typeof value?.message === 'string'
}
