import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ended, startIngest, startServe } from './ingest-process.ts'
import { ingest } from './run-ingest.ts'
import { createKey, exportedEvents, linesOf, projectId } from './sender.ts'
import { openKilled, startProxy } from './start-proxy.ts'

// what `ingest send` promises when it, or the server, is ended in the middle

const directory = t.testdir()
let count = 0

function fileOf(lines: readonly string[]): string {
  const path = join(directory, `${++count}.ndjson`)
  writeFileSync(path, lines.join('\n'))
  return path
}

/** Calls `then` at these of the batches that come, and holds back those that come meanwhile. */
function atBatches(wanted: readonly number[], then: () => Promise<void> | void) {
  let batches = 0
  let done: Promise<void> | void
  return async () => {
    if (wanted.includes(++batches)) done = then()
    await done
  }
}

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  t.test(`${signal} in the middle: exit ${code}, and run again it goes on`, async (t) => {
    const data = t.testdir()
    const INGEST_KEY = await createKey(data)
    const server = await startServe(t, ['--data', data, '--rate-limit', 'off'])
    const env = { INGEST_PROJECT_ID: projectId, INGEST_KEY }
    const lines = linesOf(signal, 3000)
    const args = ['send', fileOf(lines), '--json', '--concurrency', '2', '--url']
    const url = await startProxy(
      t,
      () => server.url,
      atBatches([12], () => void child.kill(signal)),
    )
    const child = startIngest([...args, url], { env })
    const end = await ended(child)
    t.match(end, { code, signal: null, stderr: new RegExp(`^ingest: ${signal}: run it again, and it goes on.*\\n$`) })
    const { accepted, ...result } = JSON.parse(end.stdout)
    t.match(result, { ok: false, error: { code: 'interrupted', retryable: true } })
    t.ok(accepted > 0 && accepted < 3000, String(accepted))
    const again = await ingest([...args, server.url], { env })
    t.match(JSON.parse(again.stdout), { ok: true, events: 3000 })
    t.ok(JSON.parse(again.stdout).duplicates >= accepted)
    t.strictSame((await exportedEvents(data)).sort(), lines.sort())
  })
}

t.test('a server that is killed three times and starts again: all is stored, and nothing twice', async (t) => {
  const { data, env } = await openKilled(t, (kill) => atBatches([20, 60, 100], kill), { restart: true })
  const lines = linesOf('killed', 12_000)
  const { code, stdout } = await ingest(['send', fileOf(lines), '--json'], { env })
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, ok: true, events: 12_000, rejected: 0 })
  t.strictSame((await exportedEvents(data)).sort(), lines.sort())
})

t.test('a server that is killed and stays away: exit 6, and run again it goes on', async (t) => {
  const { data, restarted, env } = await openKilled(t, (kill) => atBatches([20], kill), { restart: false })
  const lines = linesOf('left', 5000)
  const file = fileOf(lines)
  const first = await ingest(['send', file, '--json', '--retries', '1'], { env })
  t.equal(first.code, 6)
  const { accepted, ...result } = JSON.parse(first.stdout)
  t.match(result, { ok: false, error: { code: 'connection-failed', retryable: true } })
  await restarted()
  const again = await ingest(['send', file, '--json'], { env })
  t.equal(again.code, 0)
  t.ok(JSON.parse(again.stdout).duplicates >= accepted)
  t.strictSame((await exportedEvents(data)).sort(), lines.sort())
})
