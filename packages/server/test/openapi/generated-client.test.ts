import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import openapiTS, { astToString } from 'openapi-typescript'
import t from 'tap'
import ts from 'typescript'
import { openServed } from '../open-server.ts'
import { projectId } from '../test-ingest.ts'
import { fetchDocument } from './document.ts'

/** The program of a user on the generated types. */
const client = `
import type { paths } from './api.js'

const path = '/v1/events/batch' satisfies keyof paths
type SendBatch = paths[typeof path]['post']
type Batch = SendBatch['requestBody']['content']['application/json']
type Result = SendBatch['responses'][202]['content']['application/json']
type Unavailable = SendBatch['responses'][503]['content']['application/problem+json']
type Headers = SendBatch['parameters']['header']

export async function send(url: string, key: string, projectId: string): Promise<Result> {
  const headers: Headers = { 'X-Project-Id': projectId }
  const batch: Batch = { events: [{ projectId, eventId: 'e-1', type: 'round.start', placeId: 5 }, { projectId, eventId: '' }] }
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { ...headers, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(batch),
  })
  if (response.status === 503) {
    const problem: Unavailable = await response.json()
    throw new Error(problem.code === 'draining' ? 'later' : problem.detail)
  }
  const result: Result = await response.json()
  return result
}
`

/** Changes that the types refuse, with the message of the compiler. */
const mistakes: readonly (readonly [from: string, to: string, message: RegExp])[] = [
  ["eventId: 'e-1'", "eventID: 'e-1'", /eventId/],
  ["type: 'round.start'", 'type: 5', /'number' is not assignable/],
  ['return result', 'return { ...result, accepted: result.acepted }', /'acepted' does not exist/],
  ["=== 'draining'", "=== 'map-frozen'", /no overlap/],
  ["'X-Project-Id': projectId", "'X-Project': projectId", /X-Project/],
]

t.test('a client on types generated from the document compiles, and sends a batch', async (t) => {
  const api = astToString(await openapiTS((await fetchDocument()) as never))
  const wrong = Object.fromEntries(mistakes.map(([from, to], i) => [`wrong-${i}.ts`, client.replace(from, to)]))
  const directory = t.testdir({ 'package.json': '{"type":"module"}', 'api.ts': api, 'client.ts': client, ...wrong })
  const messages = compile(directory, ['client.ts', ...Object.keys(wrong)])
  t.strictSame(messages['client.ts'], undefined)
  for (const [i, [, to, message]] of mistakes.entries()) t.match(messages[`wrong-${i}.ts`] ?? '', message, to)

  const { key, served } = await openServed(t)
  const { send } = await import(pathToFileURL(join(directory, 'client.js')).href)
  t.match(await send(served.url, key, projectId), {
    accepted: 1,
    duplicates: 0,
    rejected: [{ index: 1, eventId: null }],
  })
})

/** Compiles the files and returns the messages of the compiler for each. */
function compile(directory: string, files: readonly string[]): Record<string, string> {
  const program = ts.createProgram(
    files.map((file) => join(directory, file)),
    {
      strict: true,
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
      types: [],
    },
  )
  program.emit()
  const messages: Record<string, string> = {}
  for (const { file, messageText } of ts.getPreEmitDiagnostics(program)) {
    const name = file?.fileName.split('/').at(-1) ?? ''
    messages[name] = `${messages[name] ?? ''}${ts.flattenDiagnosticMessageText(messageText, '\n')}\n`
  }
  return messages
}
