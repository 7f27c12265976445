import { type ErrorCode, errorCodes, IngestError, type Issue, type IssueCode } from '@ingest/core'

/** Maximum pause that a server may ask for: a misconfigured gateway must not silence a client for years. */
const retryAfterSecondsMax = 3600

/**
 * `Retry-After` in whole seconds from `now`, rounded up, at most an hour. It is sent as seconds or as an HTTP date (RFC
 * 9110 section 10.2.3). Undefined for anything else.
 */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined
  if (/^\d+$/.test(value)) return limitRetryAfter(Number(value))
  const at = datePattern.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(at) ? undefined : limitRetryAfter(Math.ceil((at - now) / 1000))
}

function limitRetryAfter(seconds: number): number {
  return Math.min(Math.max(0, seconds), retryAfterSecondsMax)
}

/** IMF-fixdate, the only format that senders may generate (RFC 9110 section 5.6.7). */
const datePattern = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** A response whose status is not 2xx. */
export interface FailedResponse {
  status: number
  /** By lower-case name. */
  headers: Readonly<Record<string, string | undefined>>
  body: string
}

/** Maximum characters of a text from the network in an error message. */
const foreignTextMax = 1000

/** Replaces control characters of a response by spaces: errors are logged, where a line feed would forge a line. */
export function toPrintable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
}

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
 * The error for a response: with the code and details of its problem document (RFC 9457), or, if a proxy or a newer
 * server sent it, with the code for the status. Only `status` decides whether to retry. `redact` gets each text after
 * it was parsed: JSON may have escapes for what is to be replaced.
 */
export function errorFromResponse(
  { status, headers, body }: FailedResponse,
  now: number,
  redact = toPrintable,
): IngestError {
  const headerSeconds = parseRetryAfter(headers['retry-after'], now)
  if (status < 400) {
    const target = redact(headers.location || 'nowhere').slice(0, foreignTextMax)
    const message = `The response is a redirect, ${status} to ${target}; redirects are not followed.`
    const pause = headerSeconds === undefined ? {} : { retryAfterSeconds: headerSeconds }
    return new IngestError('unexpected-response', message, { status, ...pause })
  }
  const problem = parseProblem(headers['content-type'], body)
  const codeOfStatus = codeByStatus[status] ?? (status >= 500 ? 'overloaded' : 'unexpected-response')
  const code = isErrorCode(problem.code) ? problem.code : codeOfStatus
  const message = isText(problem.detail)
    ? redact(problem.detail).slice(0, foreignTextMax)
    : `The server responded with ${status} and no reason. The response may be from a proxy, or the url is not an Ingest server.`
  const retryAfter = headerSeconds ?? problem.retryAfter
  return new IngestError(code, message, {
    status,
    ...(isWhole(retryAfter) && { retryAfterSeconds: limitRetryAfter(retryAfter) }),
    ...(isWhole(problem.limit) && { limit: problem.limit }),
    ...(isWhole(problem.actual) && { actual: problem.actual }),
    ...(isText(problem.cursor) && { cursor: redact(problem.cursor) }),
    ...(problem.cursor === null && { cursor: null }),
    ...(Array.isArray(problem.issues) && {
      issues: problem.issues.filter(isIssue).map((issue) => redactIssue(issue, redact)),
    }),
  })
}

export function redactIssue({ code, path, message }: Issue, redact: (text: string) => string): Issue {
  return { code: redact(code) as IssueCode, path: redact(path), message: redact(message) }
}

/** The error for a 2xx response that breaks the contract. */
export function unexpectedResponse(reason: string): IngestError {
  const message = `The response is not from an Ingest server: ${reason}. Check the url.`
  return new IngestError('unexpected-response', message)
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
