import type { EmbeddedIngest } from '@ingest/core'
import type { RequestHead } from '../http/request.ts'
import type { RequestRecord } from '../http/request-record.ts'
import { traceIdOf } from '../http/request-record.ts'
import { type HttpResponse, isStream } from '../http/response.ts'
import { watchEnd } from '../http/stream.ts'
import { isEnabled, type Log } from '../log.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { isTracing, type RequestSpan, startSpan, traceBatches } from './spans.ts'
import { createTrafficLog } from './traffic-log.ts'

export interface ObservedRequest extends RequestRecord {
  isLogged: boolean
  span?: RequestSpan | undefined
}

/** Measures, logs and traces requests. */
export interface RequestObserver {
  /** Undefined if the request is not observed. */
  begin(request: RequestHead, requestId: string, route: string): ObservedRequest | undefined
  /** Ends the observation of a request when the body of its response has ended. Returns that body. */
  end(record: ObservedRequest, response: HttpResponse): HttpResponse['body']
}

export function observeRequests(
  ingest: EmbeddedIngest,
  { log, metrics }: { log: Log; metrics: Metrics | undefined },
): RequestObserver {
  const traffic = isEnabled(log, 'warn') ? createTrafficLog(log, ingest) : undefined
  const measured = metrics?.requests
  traceBatches(ingest)

  function finish(record: ObservedRequest): void {
    record.endedAt = performance.now()
    measured?.end(record)
    traffic?.count(record)
    record.span?.end(record)
    if (record.isLogged) log.debug(fieldsOf(record), 'request')
  }

  return {
    begin(request, requestId, route) {
      const isLogged = isEnabled(log, 'debug')
      const isTraced = isTracing()
      if (!measured && !traffic && !isLogged && !isTraced) return undefined
      measured?.begin()
      const { method, headers } = request
      const startedAt = performance.now()
      // with all its members, so that later assignments do not change its shape
      const record: ObservedRequest = {
        requestId,
        traceId: undefined,
        route,
        method,
        startedAt,
        keyId: undefined,
        projectId: undefined,
        authenticatedAt: undefined,
        budget: undefined,
        isLongPoll: undefined,
        receivedBytes: undefined,
        sentBytes: undefined,
        bodyAt: undefined,
        handledAt: undefined,
        outcome: undefined,
        code: undefined,
        span: undefined,
        isLogged,
        // as IPv4 even if the socket accepts both
        clientAddress: () => request.socket?.remoteAddress?.replace(/^::ffff:(?=\d+\.)/i, ''),
        status: 0,
        endedAt: 0,
      }
      if (isTraced) record.span = startSpan(request, record)
      record.traceId = record.span?.traceId ?? (isLogged ? traceIdOf(headers) : undefined)
      return record
    },
    end(record, { status, body }) {
      record.status = status
      record.sentBytes = 0
      const addSent = (bytes: number) => {
        record.sentBytes = (record.sentBytes ?? 0) + bytes
      }
      if (isStream(body)) return watchEnd(body, () => finish(record), addSent)
      if (record.method !== 'HEAD') addSent(Buffer.byteLength(body))
      finish(record)
      return body
    },
  }
}

/** The fields of a log line: none is secret, and none is chosen by an unauthenticated client. */
function fieldsOf({ requestId, traceId, method, route, projectId, keyId, ...rest }: ObservedRequest): object {
  const { status, code, outcome, startedAt, endedAt, clientAddress } = rest
  const ms = Math.round((endedAt - startedAt) * 1000) / 1000
  const who = { clientAddress: clientAddress(), projectId, keyId }
  return { requestId, traceId, method, route, ...who, status, code, ...outcome, ms }
}
