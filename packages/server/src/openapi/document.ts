import type { ErrorCode } from '@ingest/core'
import { concurrencyLimits, shareMaxOf } from '../limits/concurrency.ts'
import { quotasByBudget } from '../limits/rate-limiter.ts'
import { parseRateLimits } from '../limits/rate-limits.ts'
import { comma, type Header, type Operation, type Parameter, type Success } from '../routes/operation.ts'
import type { OpenRoute, ProjectRoute } from '../routes/route.ts'
import { absoluteLinks, components, headerReferences, type Json, problemContent, withReferences } from './components.ts'
import { byStatus, meaningOf } from './problems.ts'

type Limits = Pick<ProjectRoute, 'scope' | 'concurrency' | 'budget'>

/** The limits of a route; undefined if it has no credentials and limits. */
function limitsOf(route: ProjectRoute | OpenRoute): Limits | undefined {
  return 'scope' in route ? route : undefined
}

/** The OpenAPI 3.1 document of the routes. */
export function openapiDocument(routes: readonly (ProjectRoute | OpenRoute)[]): Json {
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    const { method, path } = route
    const operation = {
      [method.toLowerCase()]: describe(route),
      ...(method === 'GET' && { head: describeHead(route) }),
    }
    paths[path] = { ...paths[path], ...operation }
  }
  return {
    openapi: '3.1.1',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info,
    servers: [{ url: '/', description: 'The server of this document.' }],
    tags,
    paths,
    components: { ...components(), parameters: everyParameter, responses: { ...anywhere, ...shared } },
  }
}

const info = {
  title: 'Ingest',
  version: '1',
  summary: 'Idempotent, durable event ingestion.',
  description: absoluteLinks(
    'Stores batches of game events exactly once, and publishes maps: [HTTP API](http-api.md). Every error is a problem document. Other paths return 404 `not-found`, other methods 405 `method-not-allowed`. Responses to HEAD are those to GET, without their body.',
  ),
  license: { name: 'MIT', identifier: 'MIT' },
}

const tags = [
  { name: 'events', description: 'Sending and reading events.' },
  { name: 'consumers', description: 'Positions of readers, kept by name.' },
  { name: 'maps', description: 'Publishing and reading maps.' },
  { name: 'project', description: 'Counts of a project.' },
  { name: 'server', description: 'Without credentials.' },
]

const everyParameter = {
  projectId: {
    name: 'X-Project-Id',
    in: 'header',
    required: true,
    description: 'The project: 1 to 64 of `A-Z a-z 0-9 . _ -`.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,64}$' },
    example: 'demo',
  },
  requestId: {
    name: 'X-Request-Id',
    in: 'header',
    description: 'The id of the request in the response and in the log. Default: a new one; also if malformed.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
  },
  traceparent: {
    name: 'traceparent',
    in: 'header',
    description: 'W3C Trace Context: its trace id is logged.',
    schema: { type: 'string' },
  },
}
const ofEvery = [{ $ref: '#/components/parameters/requestId' }, { $ref: '#/components/parameters/traceparent' }]
const ofProjects = [{ $ref: '#/components/parameters/projectId' }]

const contentEncoding: Parameter = {
  name: 'Content-Encoding',
  in: 'header',
  description: '`gzip`, or none.',
  schema: { enum: ['gzip', 'identity'] },
}

function describe(route: ProjectRoute | OpenRoute): Json {
  const { operation } = route
  const limits = limitsOf(route)
  const { operationId, tag, summary, description, parameters = [], body } = operation
  const own = [...parameters, ...(body ? [contentEncoding] : [])].map(toParameter)
  return {
    operationId,
    tags: [tag],
    summary: `${summary.charAt(0).toUpperCase()}${summary.slice(1)}`,
    description: absoluteLinks([description, ...(limits ? [limitsText(limits)] : [])].join('\n\n')),
    security: limits ? [{ ingestionKey: [limits.scope] }, { bearer: [limits.scope] }] : [],
    parameters: [...(limits ? ofProjects : []), ...own, ...ofEvery],
    ...(body && { requestBody: { required: true, content: withReferences(body) } }),
    responses: mapValues(
      responsesOf(operation, limits),
      (response) => sharedByText.get(JSON.stringify(response)) ?? response,
    ),
  }
}

function toParameter({ description, ...rest }: Parameter): unknown {
  return { ...rest, description: absoluteLinks(description), schema: withReferences(rest.schema) }
}

function limitsText({ scope, concurrency, budget }: Limits): string {
  const quotas = parseRateLimits({})
  const rates = quotasByBudget[budget].map((name) => `\`${quotas[name].policy}\``).join(', ')
  // the only route that computes its limit is one of long polls
  const names = typeof concurrency === 'string' ? [concurrency] : (['downloads', 'longPolls'] as const)
  const flights = names.map((name) => {
    const { what, max } = concurrencyLimits[name]
    return `${comma(max)} ${what} in flight, ${shareMaxOf({ max })} per project`
  })
  return `Scope: \`${scope}\`. [Rate limits](http-api.md#rate-limits): ${rates}. At most ${flights.join('; ')}.`
}

const everyCode: readonly ErrorCode[] = ['malformed-request', 'request-timeout', 'headers-too-large']
/** The error codes of any store operation, and of the checks before a handler runs. */
const projectCodes: readonly ErrorCode[] = [
  'repeated-header',
  'unauthorized',
  'rate-limited',
  'internal-error',
  'store-damaged',
  'draining',
  'key-store-unavailable',
  'overloaded',
  'disk-full',
  'store-closed',
  'store-failed',
  'store-locked',
  'store-unavailable',
]
const bodyCodes: readonly ErrorCode[] = [
  'unsupported-media-type',
  'unsupported-coding',
  'malformed-body',
  'body-consumed',
]
/** The error codes of an invalid query. Batches have none, because their query is ignored. */
const queryCodes: readonly ErrorCode[] = ['invalid-argument']

function codesOf({ codes = [], body }: Operation, limits: Limits | undefined): Set<ErrorCode> {
  return new Set([
    ...everyCode,
    ...(limits ? projectCodes : []),
    ...(body ? bodyCodes : []),
    ...(limits && limits.budget !== 'batches' ? queryCodes : []),
    ...codes,
  ])
}

function responsesOf(operation: Operation, limits: Limits | undefined): Record<string, Json> {
  const rates = limits ? rateHeaders : []
  const responses: Record<string, Json> = {}
  for (const [status, success] of Object.entries(operation.responses)) {
    responses[status] = successResponse(Number(status), success, rates)
  }
  for (const [status, codes] of byStatus(codesOf(operation, limits))) {
    responses[status] = problemResponses(status, codes, rates)
  }
  return responses
}

const rateHeaders: readonly Header[] = ['RateLimit', 'RateLimit-Policy']
const everyHeader = ['X-Request-Id', 'Cache-Control'] as const

function successResponse(status: number, { description, content, headers = [] }: Success, rates: readonly Header[]) {
  const length: readonly Header[] = status === 304 ? [] : ['Content-Length']
  return {
    description,
    headers: headerReferences([...everyHeader, ...length, ...headers, ...rates]),
    ...(content && { content: withReferences(content) }),
  }
}

/** Headers of the errors of a status. */
const headersByStatus: Readonly<Record<number, readonly Header[]>> = {
  401: ['WWW-Authenticate'],
  405: ['Allow'],
  416: ['Content-Range'],
  429: ['Retry-After'],
  503: ['Retry-After'],
}
/** Statuses of responses sent before a project is charged. */
const unratedStatuses: ReadonlySet<number> = new Set([401, 431])

function problemResponses(status: number, codes: readonly ErrorCode[], rates: readonly Header[]): Json {
  const names = [...everyHeader, 'Content-Length' as const, ...(headersByStatus[status] ?? [])]
  return {
    description: absoluteLinks(codes.map((code) => `\`${code}\`: ${meaningOf(code)}`).join('\n\n')),
    headers: headerReferences(unratedStatuses.has(status) ? names : [...names, ...rates]),
    content: problemContent(status, codes),
  }
}

/** Responses for paths and methods that are not in the document. */
const anywhere = {
  NotFound: problemResponses(404, ['not-found'], []),
  MethodNotAllowed: problemResponses(405, ['method-not-allowed'], []),
}

const sharedNames: Readonly<Record<number, string>> = {
  401: 'Unauthorized',
  408: 'RequestTimeout',
  429: 'RateLimited',
  431: 'HeadersTooLarge',
  500: 'ServerError',
  503: 'Unavailable',
}
/** Errors of most routes under /v1. */
const shared: Readonly<Record<string, Json>> = Object.fromEntries(
  [...byStatus([...everyCode, ...projectCodes])].flatMap(([status, codes]) => {
    const name = sharedNames[status]
    return name === undefined ? [] : [[name, problemResponses(status, codes, rateHeaders)]]
  }),
)
const sharedByText = new Map(
  Object.entries(shared).map(([name, response]) => [
    JSON.stringify(response),
    { $ref: `#/components/responses/${name}` },
  ]),
)

/** A response to HEAD has the headers of the one to GET. */
function describeHead(route: ProjectRoute | OpenRoute): Json {
  const responses = responsesOf(route.operation, limitsOf(route))
  const { operationId, ...get } = describe(route)
  return {
    ...get,
    operationId: `${operationId}Head`,
    description: 'As GET, without the body.',
    responses: mapValues(responses, ({ content: _, ...response }) => response),
  }
}

function mapValues<Value, Mapped>(
  values: Record<string, Value>,
  map: (value: Value) => Mapped,
): Record<string, Mapped> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value)]))
}
