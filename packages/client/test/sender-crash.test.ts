import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { openMemoryStore } from '@ingest/core'
import t from 'tap'
import { createRandom, openFaultyServer } from './sender-runs.ts'

const program = fileURLToPath(new URL('sender-program.js', import.meta.url))
const projectId = 'game-1'
const kills = Number(process.env.INGEST_KILLS ?? 5)

function start(...args: string[]) {
  // without the loader of the test runner, which costs half a second
  const { NODE_OPTIONS: _, ...env } = process.env
  return spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env })
}

t.test(`a sender that is killed ${kills} times loses no event that send has returned for`, async (t) => {
  const server = await openFaultyServer(openMemoryStore())
  const directory = t.testdir()
  const [spool, ledger] = [join(directory, 'spool'), join(directory, 'ledger')]
  const args = [server.url, projectId, spool, ledger]
  const random = createRandom(20_261_121)
  server.chooseFault.set(projectId, () => (random() < 0.3 ? 'cut after' : undefined))

  /** The ids that `send` has returned in all processes; a truncated last line was never acknowledged. */
  function said(): string[] {
    const lines = readFileSync(ledger, 'utf8').split('\n').slice(0, -1)
    writeFileSync(ledger, lines.map((line) => `${line}\n`).join(''))
    return lines
  }

  let waited = 0
  for (let round = 0; round < kills; round++) {
    const child = start(...args, '1000000')
    const errors = text(child.stderr)
    const exited = once(child, 'exit')
    await once(child.stdout, 'data')
    // a random moment
    setTimeout(() => child.kill('SIGKILL'), random() * 300)
    t.strictSame(await exited, [null, 'SIGKILL'])
    t.equal(await errors, '')
    if (readdirSync(spool).some((name) => name.endsWith('.spool'))) waited++
    said()
  }
  t.ok(waited > kills / 2, 'most kills left events in the spool')

  server.chooseFault.delete(projectId)
  const last = start(...args, '1')
  const [output, errors, exit] = await Promise.all([text(last.stdout), text(last.stderr), once(last, 'exit')])
  t.strictSame([exit, errors], [[0, null], ''])
  t.match(JSON.parse(output.split('\n')[1] ?? ''), {
    queuedEvents: 0,
    dropped: { closed: 0, damaged: 0, bad_request: 0 },
  })

  const stored: string[] = []
  for await (const { bytes } of server.ingest.project(projectId).readEvents()) {
    stored.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  }
  const sent = said()
  t.comment(`${sent.length} events`)
  t.equal(new Set(stored).size, stored.length, 'nothing is stored twice')
  const known = new Set(sent)
  t.strictSame(
    stored.filter((id) => known.has(id)),
    sent,
    'all is stored, in order',
  )
  t.ok(
    stored.length - sent.length <= kills,
    'apart from one that each process may have spooled without returning from send',
  )
  t.strictSame(readdirSync(spool), ['settled'])
  await server.close()
})

t.test(
  'queued events do not keep the process alive; it says so, and they are in the spool at the next start',
  async (t) => {
    const spool = join(t.testdir(), 'spool')
    const source = `
    import { createClient, createSender } from '@ingest/client'
    const client = createClient({ url: 'http://127.0.0.1:1', projectId: 'p', key: 'k' })
    const sender = createSender(client, { spool: ${JSON.stringify(spool)}, flushMs: 3_600_000 })
    console.log(sender.stats().queuedEvents)
    sender.send({})
  `
    for (const [queued, left] of [
      ['0\n', '1 unsent event: 1 kept'],
      ['1\n', '2 unsent events: 2 kept'],
    ]) {
      const { NODE_OPTIONS: _, ...env } = process.env
      const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
        cwd: fileURLToPath(new URL('..', import.meta.url)),
        stdio: ['ignore', 'pipe', 'pipe'],
        env,
      })
      const [output, errors, exit] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
      t.strictSame([output, exit], [queued, [0, null]])
      t.match(
        errors,
        `Warning: The process ended before the sender of p was closed, with ${left} in ${spool} for the next sender.`,
      )
    }
  },
)

t.test('a client that is closed before its sender ends the process, with a warning', async (t) => {
  const source = `
    import { createClient, createSender } from '@ingest/client'
    const client = createClient({ url: 'http://127.0.0.1:1', projectId: 'p', key: 'k' })
    const sender = createSender(client)
    sender.send({})
    await client.close()
    await sender.flush()
    console.log(JSON.stringify(sender.stats().dropped.closed))
  `
  const { NODE_OPTIONS: _, ...env } = process.env
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 20_000,
    env,
  })
  const [output, errors, exit] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  t.strictSame([output, exit], ['1\n', [0, null]])
  t.match(errors, 'Warning: The sender of p ended with 1 unsent event: 1 dropped.')
})
