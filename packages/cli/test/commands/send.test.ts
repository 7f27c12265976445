import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { ingest, startRun } from '../run-ingest.ts'
import { createKey, linesOf, openServed, parseExport, projectId, startProxy, storedEvents } from '../served.ts'

const directory = t.testdir()
const { url, key, env, project } = await openServed(t)
let count = 0

function fileOf(text: string): string {
  const path = join(directory, `${++count}.ndjson`)
  writeFileSync(path, text)
  return path
}

/** The stored events with ids `<name>-…`, byte for byte. */
async function storedOf(name: string): Promise<string[]> {
  const events = await storedEvents(project)
  return events.filter((event) => JSON.parse(event).eventId.startsWith(`${name}-`))
}

t.test('a slow pipe does not delay events until a batch is full', async (t) => {
  const stdin = new PassThrough()
  const { exited } = startRun(['send', '-', '--json'], { env, stdin })
  stdin.write(`${linesOf('pipe', 1)[0]}\n`)
  while ((await storedOf('pipe')).length === 0) await new Promise(setImmediate)
  stdin.end()
  const { code, stdout } = await exited
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, ok: true, accepted: 1 })
})

t.test('events are stored in a directory, without a server, and an export of it is sent', async (t) => {
  const data = t.testdir()
  await createKey(data)
  const local = { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }
  const lines = linesOf('moved', 150)
  const stored = await ingest(['send', '-', '--json'], { env: local, stdin: lines.join('\n') })
  t.match(JSON.parse(stored.stdout), { ok: true, accepted: 150 })
  const exported = await ingest(['export'], { env: local })
  const events = parseExport(exported.stdout).map(({ event }) => event)
  t.strictSame(events.sort(), lines.toSorted())
  const file = fileOf(exported.stdout)
  const again = await ingest(['send', file, '--json'], { env: local })
  t.match(JSON.parse(again.stdout), { accepted: 0, duplicates: 150 })
  t.match(await ingest(['send', file], { env }), { code: 0, stdout: /: 150 accepted/ }, 'into another store')
  t.strictSame((await storedOf('moved')).sort(), lines.toSorted())
})

t.test('wrong credentials end the command while standard input is open', async (t) => {
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  const stdin = new PassThrough()
  stdin.write(`${linesOf('keys', 1)[0]}\n`)
  t.match(await ingest(['send', '-'], { env: { ...env, INGEST_KEY: wrong }, stdin }), { code: 4 })
  t.ok(stdin.destroyed, 'an open standard input is closed')
})

/** Calls `then` at the batches with these numbers. */
function atBatches(wanted: readonly number[], then: () => void) {
  let batches = 0
  return () => {
    if (wanted.includes(++batches)) then()
  }
}

for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['an unreachable server', 6],
] as const) {
  t.test(`${name} while sending: exit code ${code}, and the next run resumes`, async (t) => {
    const lines = linesOf(name, 3000)
    const args = ['send', fileOf(lines.join('\n')), '--json', '--concurrency', '2', '--retries', '1', '--url']
    const proxy = await startProxy(
      t,
      () => url,
      atBatches([12], () => {
        if (name.startsWith('SIG')) running.signal(name as NodeJS.Signals)
        else proxy.isDown = true
      }),
    )
    const running = startRun([...args, proxy.url], { env })
    const end = await running.exited
    t.match(end, { code, stderr: /[Ee]vents are left unsent; run it again to resume: .*\n$/ })
    if (code !== 6) t.match(end.stderr, `ingest: ${name}: events are left unsent`)
    const { accepted, ...result } = JSON.parse(end.stdout)
    const error = code === 6 ? 'connection-failed' : 'interrupted'
    t.match(result, { ok: false, error: { code: error, retryable: true } })
    t.ok(accepted > 0 && accepted < 3000, String(accepted))
    const again = await ingest([...args, url], { env })
    t.match(JSON.parse(again.stdout), { ok: true, events: 3000 })
    t.ok(JSON.parse(again.stdout).duplicates >= accepted)
    t.strictSame((await storedOf(name)).sort(), lines.sort())
  })
}

t.test('connections that break are retried, so that each event is stored exactly once', async (t) => {
  const proxy = await startProxy(
    t,
    () => url,
    atBatches([10, 25, 40], () => proxy.reset()),
  )
  const lines = linesOf('broken', 5000)
  const { code, stdout } = await ingest(['send', fileOf(lines.join('\n')), '--json', '--url', proxy.url], { env })
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, ok: true, events: 5000, rejected: 0 })
  t.strictSame((await storedOf('broken')).sort(), lines.sort())
})
