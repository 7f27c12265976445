import {
  type Context,
  context,
  ProxyTracerProvider,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  trace,
} from '@opentelemetry/api'
import type { RequestHead, RequestHeaders } from '../http/request.ts'
import type { RequestRecord } from '../http/request-record.ts'

/** The span of one request. */
export interface RequestSpan {
  traceId: string
  /** Runs an action in the context of the span. */
  run<T>(action: () => T): T
  /** Runs a part of the request in a child span. */
  runChild<T>(name: string, action: () => Promise<T>): Promise<T>
  end(record: RequestRecord): void
}

const tracerName = '@ingest/server'

/** What OpenTelemetry uses until an SDK is registered: a span then costs an allocation and records nothing. */
const noProvider = new ProxyTracerProvider().getDelegate()

/** Whether an SDK of OpenTelemetry is registered. */
export function isTracing(): boolean {
  const provider = trace.getTracerProvider()
  return !(provider instanceof ProxyTracerProvider && provider.getDelegate() === noProvider)
}

/**
 * Starts the SERVER span of a request, with the attributes of the semantic conventions for HTTP. Its parent is the
 * active span, as of an instrumentation of node:http, or else that of `traceparent`.
 */
export function startSpan({ headers, path }: RequestHead, { method, route }: RequestRecord): RequestSpan {
  const parent = trace.getActiveSpan() ? context.active() : propagation.extract(ROOT_CONTEXT, headers, headersGetter)
  const attributes = { 'http.request.method': method, 'http.route': route, 'url.path': path }
  const options = { kind: SpanKind.SERVER, attributes }
  const tracer = trace.getTracer(tracerName)
  const span = tracer.startSpan(`${method} ${route}`, options, parent)
  const own = trace.setSpan(parent, span)
  return {
    traceId: span.spanContext().traceId,
    run: (action) => context.with(own, action),
    runChild: (name, action) => runSpan(tracer.startSpan(name, {}, own), own, action),
    end(record) {
      setResult(span, record)
      span.end()
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
    span.end()
  }
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
  // by the conventions, errors of a client are not errors of a server
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
}

const headersGetter: TextMapGetter<RequestHeaders> = {
  keys: ({ values }) => Object.keys(values),
  get: ({ values }, name) => (name === 'traceparent' || name === 'tracestate' ? values[name] : undefined),
}
