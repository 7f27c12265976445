import { readFile } from 'node:fs/promises'
import { createIngest, IngestError, openMemoryStore, type Store } from '@ingest/core'
import { createMetrics, toFetchHandler } from '@ingest/server'
import t, { type Test } from 'tap'
import { createLog } from '../src/serve/serve-log.ts'
import { startServe } from './ingest-process.ts'
import { createIo } from './run-ingest.ts'
import { createKey, projectId } from './served.ts'

const content = 'CanaryContent'
const adminToken = 'canary-admin-token-0123456789'
const wrongToken = 'wrong-canary-admin-token-0123'

/** A valid key, a key with a wrong secret, and texts that are not keys. */
function credentialsFor(key: string): { all: string[]; secrets: string[] } {
  const wrong = `${key.slice(0, 12)}${key.slice(12, -1).split('').reverse().join('')}0`
  return {
    all: [key, wrong, 'CanaryKey', `ik_${'0'.repeat(47)}`],
    secrets: [key.slice(12), wrong.slice(12), 'CanaryKey'],
  }
}

/** Bodies with every outcome; each contains the canary. */
const bodies = [
  JSON.stringify({ events: [{ projectId, eventId: 'e-1', secret: content }] }),
  JSON.stringify({ events: [{ projectId, eventId: 'e-1', other: content }] }),
  JSON.stringify({ events: [{ projectId, eventId: 'e-2', type: [content] }, content, { [content]: 1 }] }),
  JSON.stringify({ events: content }),
  JSON.stringify({ events: Array.from({ length: 101 }, () => content) }),
  `{"events":[${content}]}`,
  `${content}`,
  `{"events":[{"projectId":"${projectId}","eventId":"e-3","buildId":"${content}\\u0000"}]}`,
]

/** Requests of every route with every credential and body. Returns the texts of the responses. */
async function sendAll(fetchFrom: (path: string, init: RequestInit) => Promise<Response>, keys: readonly string[]) {
  const texts: string[] = []
  const keep = async (path: string, init: RequestInit) => {
    const response = await fetchFrom(path, init)
    texts.push(`${[...response.headers].join('\n')}\n${await response.text()}`)
  }
  for (const key of keys) {
    const ways: Record<string, string>[] = [
      { 'X-Project-Id': projectId, 'X-Ingestion-Key': key },
      { 'X-Project-Id': projectId, Authorization: `Bearer ${key}` },
      { 'X-Project-Id': key, 'X-Ingestion-Key': key },
    ]
    for (const credentials of ways) {
      const headers = { ...credentials, 'Content-Type': 'application/json', traceparent: key, 'X-Forwarded-For': key }
      for (const body of bodies) await keep('/v1/events/batch', { method: 'POST', headers, body })
      await keep('/v1/maps/chunks', { method: 'PUT', headers, body: content })
      await keep(`/v1/maps?placeId=p&buildId=b`, { method: 'PUT', headers, body: `{"a":${content}}` })
      await keep(`/v1/${key}?key=${key}`, { headers })
      if (key.startsWith('ik_')) await keep('/v1/stats', { headers: { ...headers, 'X-Request-Id': key } })
      for (const path of ['/v1/events/batch', '/v1/rejected', '/v1/activity']) await keep(path, { headers })
    }
  }
  return texts
}

function withoutSecrets(t: Test, where: string, text: string, secrets: readonly string[]): void {
  t.not(text, '', where)
  for (const secret of secrets) t.notOk(text.includes(secret), `${where} without ${secret}: ${around(text, secret)}`)
}

function around(text: string, secret: string): string {
  const at = text.indexOf(secret)
  return at === -1 ? '' : text.slice(Math.max(0, at - 200), at + 100)
}

t.test('a server shows no key, event, token or password, in logs, errors, metrics or arguments', async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const limits = ['--rate-limit', 'requests=20,events=2000']
  const args = ['--store', data, '--log-level', 'debug', '--admin', '127.0.0.1:0', ...limits]
  const server = await startServe(t, args, { env: { INGEST_ADMIN_TOKEN: adminToken, INGEST_KEY: key } })
  const { all, secrets } = credentialsFor(key)
  const responses = await sendAll((path, init) => fetch(`${server.url}${path}`, init), all)
  const [listening] = server.log().filter(({ admin }) => typeof admin === 'string')
  const admin = String(listening?.admin)
  for (const token of [adminToken, wrongToken, key]) {
    const headers = { Authorization: `Bearer ${token}` }
    for (const path of ['/v1/projects', `/v1/projects/${projectId}/keys`, `/${token}`]) {
      responses.push(await (await fetch(`${admin}${path}`, { headers })).text())
    }
  }
  const metrics = await (await fetch(`${admin}/metrics`)).text()
  t.match(metrics, 'ingest_http_problems_total{code="rate-limited"}')
  const hidden = [...secrets, content, adminToken, wrongToken]
  if (process.platform === 'linux') {
    withoutSecrets(t, 'the arguments', await readFile(`/proc/${server.child.pid}/cmdline`, 'utf8'), hidden)
  }
  server.signal('SIGTERM')
  const { stdout, stderr } = await server.exited
  withoutSecrets(t, 'responses', responses.join('\n'), hidden)
  withoutSecrets(t, 'the metrics', metrics, hidden)
  withoutSecrets(t, 'the output', stdout, hidden)
  withoutSecrets(t, 'the log', stderr, hidden)
  t.match(stderr, key.slice(3, 11), 'the log names keys by their ids')
})

t.test('failures of the store are logged and refused without keys and events', async (t) => {
  const failures = [
    new IngestError('disk-full', 'no space', { cause: new Error('ENOSPC: write') }),
    new IngestError('store-unavailable', 'gone'),
    new TypeError('unexpected'),
  ]
  const store = openMemoryStore()
  let failure: Error | undefined
  const failing: Store = { ...store, append: (...args) => (failure ? Promise.reject(failure) : store.append(...args)) }
  const embedded = createIngest({ store: failing })
  const { key } = await embedded.keys.create(projectId)
  const { io, stderr } = createIo()
  const log = await createLog(io, { level: 'debug' })
  const metrics = createMetrics(embedded)
  const handle = toFetchHandler(embedded, { log, metrics, rateLimits: {} })
  const { secrets } = credentialsFor(key)
  const responses: string[] = []
  for (failure of failures) {
    responses.push(...(await sendAll((path, init) => handle(new Request(`http://localhost${path}`, init)), [key])))
  }
  const hidden = [...secrets, content]
  withoutSecrets(t, 'responses', responses.join('\n'), hidden)
  withoutSecrets(t, 'the log', stderr(), hidden)
  withoutSecrets(t, 'the metrics', await metrics.render(), hidden)
  t.match(stderr(), 'ENOSPC')
  t.match(stderr(), 'TypeError: unexpected')
})
