import Schemas from 'typebox/schema'
import type { RawResponse, Sent } from '../raw-connection.ts'
import { type DocumentedOperation, fetchDocument, resolveReferences, type Schema } from './document.ts'

const document = resolveReferences(await fetchDocument())

/** Schemas of requests, to which unknown members may be added. */
const openSchemas = new Set(['Batch', 'ChunksUpload', 'Event', 'Manifest', 'Publication'])
const components = {
  schemas: Object.fromEntries(
    Object.entries(document.components.schemas).map(([name, schema]) => [
      name,
      openSchemas.has(name) ? schema : closeObjects(schema),
    ]),
  ),
}

/** Members that a schema does not name are errors. */
function closeObjects(schema: Schema): Schema {
  const closed = Object.entries(schema).map(([key, value]) => [key, closeEach(key, value)])
  const isObject = 'properties' in schema
  return { ...Object.fromEntries(closed), ...(isObject && { additionalProperties: false }) }
}

function closeEach(key: string, value: unknown): unknown {
  // the members of allOf see each other's members
  if (key === 'allOf' || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((each) => closeEach('', each))
  return key === 'properties' || key === 'required' || key === 'enum' || key === 'const'
    ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, closeEach('', each)]))
    : closeObjects(value as Schema)
}

const checks = new Map<Schema, ReturnType<typeof Schemas.Compile>>()

function faultsIn(value: unknown, schema: Schema, what: string): string[] {
  const check = checks.get(schema) ?? Schemas.Compile({ ...closeObjects(schema), components } as never)
  checks.set(schema, check)
  if (check.Check(value)) return []
  const [, errors] = check.Errors(value)
  return errors.map(({ instancePath, message }) => `${what}${instancePath} ${message}`)
}

/** Headers of the connection, of the body and of CORS, which the document does not list. */
const implied = /^(connection|content-type|date|keep-alive|transfer-encoding|vary|access-control-.*)$/

/** The differences between a response and its description in the document; empty if there are none. */
export function faultsOf(sent: Sent, response: RawResponse): string[] {
  const { method = 'POST', path: target = '/v1/events/batch' } = sent
  const [path = ''] = target.split('?')
  const item = document.paths[routeOf(path)]
  const operation = item?.[method.toLowerCase()]
  const { NotFound, MethodNotAllowed } = document.components.responses
  const responses = operation?.responses ?? (item ? { 405: MethodNotAllowed } : { 404: NotFound })
  const documented = responses[response.status as never] as DocumentedOperation['responses'][string] | undefined
  const name = `${method} ${path} ${response.status}`
  if (method === 'OPTIONS' && response.status === 204) return []
  if (!documented) return [`${name} is not documented: ${response.body.slice(0, 200)}`]
  const faults = [
    ...headerFaults(documented.headers, response.headers),
    ...bodyFaults(documented.content, response, method),
    ...(operation && response.status < 300 ? requestFaults(operation, sent, response) : []),
  ]
  return faults.map((fault) => `${name}: ${fault}`)
}

/** The path of the document, with `{…}` in place of a parameter. */
function routeOf(path: string): string {
  return path.replace(/^(\/v1\/consumers\/)[^/]+$/, '$1{name}')
}

type Documented = DocumentedOperation['responses'][string]

function headerFaults(documented: Documented['headers'], headers: Record<string, string>): string[] {
  const known = new Map(Object.entries(documented).map(([name, header]) => [name.toLowerCase(), header]))
  const missing = [...known].filter(([name, { required }]) => required && headers[name] === undefined)
  const unknown = Object.keys(headers).filter((name) => !known.has(name) && !implied.test(name))
  const invalid = [...known].flatMap(([name, { schema }]) => {
    const value = headers[name]
    return value === undefined ? [] : faultsIn(schema.type === 'integer' ? Number(value) : value, schema, name)
  })
  return [
    ...missing.map(([name]) => `has no header ${name}`),
    ...unknown.map((name) => `has the header ${name}, which is not documented`),
    ...invalid,
  ]
}

function bodyFaults(content: Documented['content'], response: RawResponse, method: string): string[] {
  if (method === 'HEAD' || !content) return response.body === '' ? [] : ['has a body']
  const type = response.headers['content-type']?.split(';')[0] ?? ''
  const documented = content[type] ?? content['*/*']
  if (!documented) return [`has the media type "${type}", which is not documented`]
  const { schema } = documented
  if (!schema) return []
  if (type === 'application/x-ndjson') return lineFaults(schema, response.body)
  return faultsIn(JSON.parse(response.body), schema, 'body')
}

function lineFaults(schema: Schema, body: string): string[] {
  const line = schema.contentSchema as Schema
  const lines = body.split('\n').filter((text) => text !== '')
  return lines.flatMap((text) => faultsIn(JSON.parse(text), line, 'line'))
}

/** The differences between a request that succeeded and its description in the document. */
function requestFaults({ parameters, requestBody }: DocumentedOperation, sent: Sent, response: RawResponse): string[] {
  const [path = '', query = ''] = (sent.path ?? '').split('?')
  const known = new Set(parameters.flatMap(({ name, in: where }) => (where === 'query' ? [name] : [])))
  const isIgnored = !path.startsWith('/v1') || path === '/v1/events/batch'
  const unknown = isIgnored ? [] : [...new URLSearchParams(query).keys()].filter((name) => !known.has(name))
  const faults = unknown.map((name) => `took the parameter ${name}, which is not documented`)
  const body = jsonOf(sent)
  const schema = requestBody?.content['application/json']?.schema
  if (!schema || body === undefined || isPartlyRefused(response)) return faults
  return [...faults, ...faultsIn(body, schema, 'request')]
}

/** The value of a JSON body; undefined if it is encoded or not JSON. */
function jsonOf({ body, headers = [] }: Sent): unknown {
  const isCoded = headers.some(([name, value]) => /^content-encoding$/i.test(name) && value !== '')
  const isJson = headers.some(([name, value]) => /^content-type$/i.test(name) && /^application\/json/i.test(value))
  if (body === undefined || isCoded || !isJson) return undefined
  return JSON.parse(
    Buffer.from(body)
      .toString()
      .replace(/^\ufeff/, ''),
  )
}

/** Events and chunks are checked one by one, and a stored event is a duplicate whatever it holds. */
function isPartlyRefused({ body }: RawResponse): boolean {
  const { duplicates = 0, rejected = [] } = JSON.parse(body)
  return duplicates > 0 || rejected.length > 0
}
