import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { ingestCommand, startServe } from '../ingest-process.ts'
import { ingest, isWrongUsage } from '../run-ingest.ts'
import { createKey, projectId, send, unknownProject } from '../served.ts'

const data = join(t.testdir(), 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data])
const odd = `{ "projectId":"${projectId}",\t"eventId": "a b/é",\n"n":12345678901234567890, "e":1.0E+2 }`
await send({ ...server, key }, `{"events":[{"projectId":"${projectId}","eventId":"first"},${odd}]}`)

for (const [name, env] of [
  ['over HTTP', { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key }],
  ['in a store', { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }],
] as const) {
  t.test(`${name}, an event is printed with its receivedAt and its cursor`, async (t) => {
    const { code, stdout, stderr } = await ingest(['find', 'first'], { env })
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.match(stdout, /^received {2}20\d\d-\S+Z\ncursor {4}[\w-]{32}\n\n\{"projectId":"game-1","eventId":"first"\}\n$/)
    const exported = await ingest(['export', '--store', data, '--project', projectId])
    const lines = exported.stdout.split('\n')
    for (const [eventId, line = ''] of [
      ['first', lines[0]],
      ['a b/é', lines[1]],
    ] as const) {
      const { cursor, receivedAt } = JSON.parse(line)
      const head = JSON.stringify({ ok: true, cursor, receivedAt: new Date(receivedAt).toISOString() }).slice(0, -1)
      const event = line.slice(line.indexOf('"event":'))
      t.equal((await ingest(['find', eventId, '--json'], { env })).stdout, `${head},${event}\n`, 'the very bytes')
    }
  })

  t.test(`${name}, a missing event: exit code 3`, async (t) => {
    const stderr = 'ingest: The project game-1 has no event First.\n'
    t.match(await ingest(['find', 'First'], { env }), { code: 3, stdout: /^$/, stderr })
    t.match(await ingest(['find', 'First', '--json'], { env }), { code: 3, stdout: /"code":"event-not-found"/, stderr })
  })

  t.test(`${name}, an invalid id is wrong usage`, async (t) => {
    await isWrongUsage(t, ['find', ''], /Expected at least 1 byte/, { env })
    await isWrongUsage(t, ['find', 'x'.repeat(257)], /Expected at most 256 bytes/, { env })
  })
}

t.test('an unknown project in a store: exit code 3', async (t) => {
  const unknown = ['find', 'first', '--store', data, '--project', 'gmae-1']
  t.strictSame(await ingest(unknown), { code: 3, signal: null, stdout: '', stderr: unknownProject })
  t.match(JSON.parse((await ingest([...unknown, '--json'])).stdout), { error: { code: 'project-not-found' } })
})

t.test('an event of a store is printed byte for byte', async (t) => {
  const { stdout } = await ingest(['find', 'a b/é', '--store', data, '--project', projectId])
  t.equal(stdout.slice(stdout.indexOf('\n\n') + 2), `${odd}\n`)
})

const noTerminal = spawnSync('script', ['--version']).error ? 'no script(1) here, which makes terminals' : false
t.test('on a terminal control characters of an event are escaped', { skip: noTerminal }, async (t) => {
  const evil = `{"projectId":"${projectId}",\t"eventId":"evil",\n"text":"\u009b2J\u202e"}`
  await send({ ...server, key }, `{"events":[${evil}]}`)
  for (const [flags, shown] of [
    [[], '{"projectId":"game-1",\t"eventId":"evil",\r\n"text":"\\u009b2J\\u202e"}\r\n'],
    [['--json'], '{"projectId":"game-1",\t"eventId":"evil", "text":"\\u009b2J\\u202e"}}\r\n'],
  ] as const) {
    const command = ingestCommand(['find', 'evil', '--store', data, '--project', projectId, ...flags])
    const quoted = command.map((word) => `'${word}'`).join(' ')
    const { stdout } = spawnSync('script', ['-qec', quoted, '/dev/null'], { encoding: 'utf8' })
    t.ok(stdout.endsWith(shown), JSON.stringify(stdout))
  }
})

t.test('wrong usage', async (t) => {
  await isWrongUsage(t, ['find', '--project', 'p'], /missing required argument 'eventId'/)
  await isWrongUsage(t, ['find', 'a', '--store', data], /--project <id>/)
  await isWrongUsage(t, ['find', 'a', '--project', 'p'], /name a server with --url/)
})
