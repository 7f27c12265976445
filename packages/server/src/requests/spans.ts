import type { BatchReport, EmbeddedIngest } from '@ingest/core'
import {
  type Context,
  context,
  createContextKey,
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  type TextMapGetter,
  trace,
} from '@opentelemetry/api'
import type { RequestHead, RequestHeaders } from '../http/request.ts'
import type { RequestRecord } from '../http/request-record.ts'

/** The span of one request. */
export interface RequestSpan {
  traceId: string
  /** Runs an action in the span's context. */
  run<T>(action: () => T): T
  /** Runs a part of the request in a child span. */
  runChild<T>(name: string, action: () => Promise<T>): Promise<T>
  end(record: RequestRecord): void
}

const tracerName = '@ingest/server'

/** OpenTelemetry's provider until an SDK is registered: a span then costs an allocation and records nothing. */
const noProvider = new ProxyTracerProvider().getDelegate()

/** Whether an SDK of OpenTelemetry is registered. */
export function isTracing(): boolean {
  const provider = trace.getTracerProvider()
  return !(provider instanceof ProxyTracerProvider && provider.getDelegate() === noProvider)
}

/** The time of a span, in milliseconds since 1970, from one of `performance.now()`. */
type SpanClock = (at: number) => number

/** `Date.now()` has whole milliseconds: if each span read it, spans could begin before their parents. */
const clockKey = createContextKey('@ingest/server clock')

function createClock(): SpanClock {
  const epoch = Date.now() - performance.now()
  return (at) => epoch + at
}

function clockOf(parent: Context): SpanClock {
  return (parent.getValue(clockKey) as SpanClock | undefined) ?? createClock()
}

/**
 * Starts the SERVER span of a request, with the attributes of the semantic conventions for HTTP. Its parent is the
 * active span, such as that of an instrumentation of node:http, or else the span of `traceparent`.
 */
export function startSpan({ headers, path }: RequestHead, { method, route, startedAt }: RequestRecord): RequestSpan {
  const toTime = createClock()
  const parent = trace.getActiveSpan() ? context.active() : propagation.extract(ROOT_CONTEXT, headers, headersGetter)
  const attributes = { 'http.request.method': method, 'http.route': route, 'url.path': path }
  const options = { kind: SpanKind.SERVER, attributes, startTime: toTime(startedAt) }
  const tracer = trace.getTracer(tracerName)
  const span = tracer.startSpan(`${method} ${route}`, options, parent)
  const own = trace.setSpan(parent, span).setValue(clockKey, toTime)
  return {
    traceId: span.spanContext().traceId,
    run: (action) => context.with(own, action),
    runChild(name, action) {
      return runSpan(tracer.startSpan(name, { startTime: toTime(performance.now()) }, own), own, action)
    },
    end(record) {
      setResult(span, record)
      span.end(toTime(record.endedAt))
    },
  }
}

async function runSpan<T>(span: Span, parent: Context, action: () => Promise<T>): Promise<T> {
  try {
    return await context.with(trace.setSpan(parent, span), action)
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR })
    throw error
  } finally {
    span.end(clockOf(parent)(performance.now()))
  }
}

/** Ingests whose batches are already traced: several handlers may serve one. */
const traced = new WeakSet<object>()

/** Adds the steps of each batch to the span in which it is submitted. Requires a context manager. */
export function traceBatches(ingest: Pick<EmbeddedIngest, 'observe'>): void {
  if (traced.has(ingest)) return
  traced.add(ingest)
  ingest.observe({ onBatch: addSteps })
}

/**
 * Adds the spans `decide`, `append` and, inside of it, `commit`. Batches that share a commit get a span each, so that
 * one trace shows where the time went: links would lead to another trace.
 */
function addSteps({ durationMs, appendMs, commit }: BatchReport): void {
  if (!isTracing()) return
  const parent = context.active()
  if (!trace.getSpan(parent)?.isRecording()) return
  const tracer = trace.getTracer(tracerName)
  const toTime = clockOf(parent)
  const now = performance.now()

  function addSpan(name: string, within: Context, { from, to = now, attributes = {} }: Step): Context {
    const span = tracer.startSpan(name, { startTime: toTime(from), attributes }, within)
    span.end(toTime(to))
    return trace.setSpan(within, span)
  }

  addSpan('decide', parent, { from: now - durationMs, to: now - appendMs })
  if (appendMs === 0) return
  const append = addSpan('append', parent, { from: now - appendMs })
  if (!commit) return
  const attributes = { 'ingest.commit.requests': commit.requests }
  addSpan('commit', append, { from: now - commit.durationMs, attributes })
}

/** Times are those of `performance.now()`. */
interface Step {
  from: number
  to?: number
  attributes?: SpanOptions['attributes']
}

function setResult(span: Span, { status, code, projectId, outcome }: RequestRecord): void {
  span.setAttribute('http.response.status_code', status)
  if (projectId !== undefined) span.setAttribute('ingest.project.id', projectId)
  if (outcome) {
    span.setAttribute('ingest.events.accepted', outcome.accepted)
    span.setAttribute('ingest.events.duplicate', outcome.duplicates)
    span.setAttribute('ingest.events.rejected', outcome.rejected)
  }
  if (code !== undefined) span.setAttribute('error.type', code)
  // by the semantic conventions, client errors are not errors of a server span
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
}

const headersGetter: TextMapGetter<RequestHeaders> = {
  keys: ({ values }) => Object.keys(values),
  get: ({ values }, name) => (name === 'traceparent' || name === 'tracestate' ? values[name] : undefined),
}
