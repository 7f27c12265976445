import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { gunzipSync } from 'node:zlib'
import { createIngest, type EmbeddedIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t, { type Test } from 'tap'
import { ended, ingestCommand, ownEnvironment, spawnIngest, startIngest, startServe } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'
import { createKey, idsOf, parseExport, projectId } from '../served.ts'

const hourMs = 3_600_000
const midnight = Date.UTC(2026, 10, 20)

/** A store, and a directory for files beside it. */
function openStore(t: Test, now = Date.now) {
  const path = t.testdir({})
  const data = join(path, 'data')
  const output = join(path, 'files')
  const args = ['export', '--data', data, '--project', projectId, '--output', output]
  const open = async () => createIngest({ store: await openLmdbStore(data), now })
  return { path, data, output, args, open }
}

async function store(to: EmbeddedIngest, ids: readonly string[], filler = ''): Promise<void> {
  for (let at = 0; at < ids.length; at += 100) {
    const events = ids.slice(at, at + 100).map((eventId) => ({ projectId, eventId, ...(filler && { filler }) }))
    await to.project(projectId).submitBatch({ events })
  }
}

const filesIn = (output: string) => readdirSync(output).filter((name) => !name.startsWith('.'))

function textOf(path: string): string {
  const bytes = readFileSync(path)
  return path.endsWith('.gz') ? gunzipSync(bytes).toString() : bytes.toString()
}

/** The ids of the events in the files of a directory, in the order of their names. */
function idsIn(output: string): string[] {
  return parseExport(
    filesIn(output)
      .map((name) => textOf(join(output, name)))
      .join(''),
  ).map(({ event }) => JSON.parse(event).eventId)
}

t.test('files are of at most that size, and put together they are what is printed', async (t) => {
  const { open, args, output, data } = openStore(t)
  const to = await open()
  await store(to, idsOf('e', 1000))
  await to.close()
  const whole = (await ingest(['export', '--data', data, '--project', projectId])).stdout
  for (const [extension, ...options] of [['ndjson'], ['ndjson.gz', '--gzip']]) {
    rmSync(output, { recursive: true, force: true })
    const { code, stdout, stderr } = await ingest([...args, '--max-size', '10K', ...options])
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    const names = filesIn(output)
    const texts = names.map((name) => textOf(join(output, name)))
    t.equal(texts.join(''), whole)
    t.ok(texts.every((text) => text.length <= 10_240))
    t.ok(
      texts.slice(0, -1).every((text) => text.length > 10_100),
      'and not much less',
    )
    t.ok(
      names.every((name, i) =>
        new RegExp(`^game-1-0{6}${String(i + 1).padStart(2, '0')}-\\d{8}T\\d{6}Z\\.${extension}$`).test(name),
      ),
    )
    const lines = stdout.trimEnd().split('\n')
    t.strictSame(
      lines.slice(0, -1).map((line) => line.replace(/: .*/, '')),
      names.map((name) => `wrote ${join(output, name)}`),
    )
    t.match(lines.at(-1), new RegExp(`^exported 1000 events: ${names.length} files, [\\d.]+ kB, in [\\d.]+ s$`))
  }
})

t.test('the next run goes on behind the last one, in whichever format', async (t) => {
  const { open, args, output } = openStore(t)
  const to = await open()
  await store(to, idsOf('a', 150))
  t.match(await spawnIngest([...args, '--limit', '120']), {
    code: 0,
    stdout: /^wrote .*\nexported 120 events: 1 file,/,
  })
  await store(to, idsOf('b', 10))
  t.match(await spawnIngest([...args, '--gzip']), { code: 0, stdout: 'exported 40 events' })
  t.match(await spawnIngest(args), { code: 0, stdout: /^exported nothing: there are no new events\n$/ })
  for (const name of filesIn(output)) rmSync(join(output, name))
  await store(to, idsOf('c', 5))
  t.match(await spawnIngest(args), { code: 0, stdout: 'exported 5 events' })
  t.strictSame(idsIn(output), idsOf('c', 5), 'what was taken away is not written again')
  await to.close()
})

t.test('--after is where the first run begins, and counts for no other', async (t) => {
  const { open, args, output } = openStore(t)
  const to = await open()
  await store(to, idsOf('a', 10))
  const { cursor = '' } = (await to.project(projectId).findEvent('a-3')) ?? {}
  for (const _ of [1, 2]) t.match(await spawnIngest([...args, '--after', cursor]), { code: 0 })
  t.strictSame(idsIn(output), idsOf('a', 10).slice(4))
  await to.close()
})

t.test('a file for each hour, and none for one that is not over', async (t) => {
  let now = midnight - hourMs
  const { open, args, output } = openStore(t, () => now)
  const to = await open()
  const received = [-1, 0, 10, 59.99, 60, 61, 240].map((minutes) => midnight + minutes * 60_000)
  received.push(Date.now())
  for (const [i, at] of received.entries()) {
    now = at
    await store(to, [`e-${i}`])
  }
  t.match(await spawnIngest([...args, '--every', 'hour']), { code: 0, stdout: 'exported 7 events: 4 files' })
  t.strictSame(filesIn(output), [
    'game-1-00000001-20261119T235900Z.ndjson',
    'game-1-00000002-20261120T000000Z.ndjson',
    'game-1-00000003-20261120T010000Z.ndjson',
    'game-1-00000004-20261120T040000Z.ndjson',
  ])
  t.match(await spawnIngest([...args, '--every', 'hour']), { code: 0, stdout: 'no new events of a completed hour' })
  t.match(await spawnIngest(args), { code: 0, stdout: 'exported 1 event:' })
  t.strictSame(idsIn(output), idsOf('e', 8))
  await to.close()
})

t.test('from a server it is the same as from its store', async (t) => {
  const { data, open, args, output, path } = openStore(t)
  const to = await open()
  await store(to, idsOf('e', 2500))
  await to.close()
  const key = await createKey(data)
  const { url } = await startServe(t, ['--data', data])
  const served = join(path, 'served')
  const env = { INGEST_KEY: key }
  const fromServer = ['export', '--url', url, '--project', projectId, '--output', served, '--max-size', '100K']
  t.match(await ingest(fromServer, { env }), { code: 0, stderr: '' })
  t.match(await ingest([...args, '--max-size', '100K']), { code: 0 })
  t.strictSame(filesIn(served), filesIn(output))
  for (const name of filesIn(served)) t.equal(textOf(join(served, name)), textOf(join(output, name)))
  const printed = await ingest(['export', '--url', url, '--project', projectId, '--limit', '1'], { env })
  t.equal(printed.stdout, textOf(join(output, filesIn(output)[0] ?? '')).replace(/(?<=\n).*/s, ''))
})

/** What all runs into a directory have given, while a consumer takes away some of the files. */
function openConsumer(output: string) {
  const taken = join(output, '..', 'taken')
  mkdirSync(taken)
  const seen = new Map<string, string>()
  return {
    taken,
    /** Asserts that no file has changed since it was seen, and takes away those that `takes` picks. */
    look(t: Test, takes: (name: string) => boolean) {
      if (!existsSync(output)) return
      for (const name of filesIn(output)) {
        const text = textOf(join(output, name))
        if ((seen.get(name) ?? text) !== text) t.fail(`${name} has changed`)
        if (existsSync(join(taken, name))) t.fail(`${name} came again`)
        seen.set(name, text)
        if (takes(name)) renameSync(join(output, name), join(taken, name))
      }
    },
  }
}

/** Small numbers from a seed, the same for the same seed: mulberry32. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

t.test('killed at random and run again, it gives each event once', async (t) => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31)
  t.comment(`SEED=${seed}`)
  const random = numbersFrom(seed)
  const { open, args, output } = openStore(t)
  const to = await open()
  const ids: string[] = []
  const more = async (count: number) => {
    const some = idsOf(`e-${ids.length}`, count)
    await store(to, some, 'x'.repeat(200))
    ids.push(...some)
  }
  await more(3000)
  const consumer = openConsumer(output)
  let kills = 0
  for (let run = 0; run < 6; run++) {
    const child = startIngest([...args, '--max-size', '20K', ...(random(2) ? ['--gzip'] : [])])
    const exited = once(child, 'exit')
    const files = 1 + random(8)
    const steps = random(20)
    let line = 0
    createInterface(child.stdout).on('line', async () => {
      if (++line !== files) return
      for (let step = 0; step < steps; step++) await new Promise(setImmediate)
      child.kill('SIGKILL')
    })
    const adding = more(300)
    const [, signal] = await exited
    if (signal) kills++
    await adding
    consumer.look(t, () => random(2) === 0)
  }
  t.ok(kills > 2, `it was killed ${kills} times`)
  t.match(await spawnIngest([...args, '--max-size', '20K']), { code: 0, stderr: '' })
  consumer.look(t, () => true)
  t.strictSame(filesIn(output), [])
  t.ok(idsIn(consumer.taken).join() === ids.join(), 'each event once, in order')
  await to.close()
})

const noStrace =
  process.platform !== 'linux' || spawnSync('strace', ['-o', '/dev/null', 'true']).status !== 0
    ? 'strace is not on this machine'
    : false

const locksIn = (output: string) =>
  existsSync(output) ? readdirSync(output).filter((name) => name.includes('.lock')) : []

/** Runs the command with faults on its system calls: one thread makes them, so that the n-th is always the same. */
function withFault(args: readonly string[], fault: string) {
  const strace = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fsync,rename', '-e', `inject=${fault}`]
  return ended(
    spawn('strace', [...strace, ...ingestCommand(args)], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...ownEnvironment(), UV_THREADPOOL_SIZE: '1' },
    }),
  )
}

t.test('killed at each step of writing a file, it gives each event once', { skip: noStrace }, async (t) => {
  const { open, args, output } = openStore(t)
  const to = await open()
  const consumer = openConsumer(output)
  const ids: string[] = []
  const cut = ['--max-size', '4K']
  // a file takes 5 syncs and 2 renames, and completing the last one of the run before 2 and 1
  const steps = [1, 2, 3, 4, 5].map((n) => `fsync:signal=SIGKILL:when=${n}`)
  steps.push(...[1, 2, 3].map((n) => `rename:signal=SIGKILL:when=${n}`))
  for (const [i, step] of steps.entries()) {
    const some = idsOf(`e-${i}`, 100)
    await store(to, some)
    ids.push(...some)
    // to take over a lock is to rename it, too
    for (const name of locksIn(output)) rmSync(join(output, name))
    const killed = await withFault([...args, ...cut], step)
    t.match(killed, { code: null, signal: 'SIGKILL' }, step)
    consumer.look(t, () => i % 2 === 0)
  }
  t.match(await spawnIngest([...args, ...cut]), { code: 0, stderr: '' })
  consumer.look(t, () => true)
  t.strictSame(idsIn(consumer.taken), ids)
  t.strictSame(
    readdirSync(output).filter((name) => name.endsWith('.part')),
    [],
  )
  await to.close()
})

t.test('a full disk: exit 6, nothing half is left, and the next run makes up for it', { skip: noStrace }, async (t) => {
  const { open, args, output } = openStore(t)
  const to = await open()
  await store(to, idsOf('e', 200))
  await to.close()
  for (const n of [1, 3]) {
    t.match(await withFault([...args, '--max-size', '8K'], `fsync:error=ENOSPC:when=${n}`), {
      code: 6,
      stderr: /^ingest: .* cannot be written: ENOSPC: [^,']*\n$/,
    })
    t.strictSame(readdirSync(output), [])
  }
  t.match(await ingest(args), { code: 0 })
  t.strictSame(idsIn(output), idsOf('e', 200))
})

t.test('a damaged record: what is good before it is exported', async (t) => {
  const { data, open, args, output } = openStore(t)
  const to = await open()
  for (const batch of ['a', 'b', 'c']) await store(to, idsOf(batch, 3), batch.repeat(50))
  await to.close()
  const path = join(data, 'events', 'data.mdb')
  const bytes = readFileSync(path)
  const filler = Buffer.from('c'.repeat(50))
  for (let at = bytes.indexOf(filler); at !== -1; at = bytes.indexOf(filler, at + 1)) bytes[at] = 0x64
  rmSync(path)
  appendFileSync(path, bytes)

  const good = [...idsOf('a', 3), ...idsOf('b', 3)]
  const damage = { code: 5, stderr: /^ingest: Record 3 .*\n$/ }
  const printed = await ingest(args.slice(0, -2))
  t.match(printed, damage)
  t.strictSame(
    parseExport(printed.stdout).map(({ event }) => JSON.parse(event).eventId),
    good,
  )
  for (const _ of [1, 2]) {
    t.match(await ingest(args), damage)
    t.strictSame(idsIn(output), good)
  }
  t.match(JSON.parse((await ingest([...args, '--json'])).stdout), {
    ok: false,
    error: { code: 'store-damaged', retryable: false },
  })
})

/** A server that gives a page of 100 events, and of the next one a part: it then waits, or breaks the connection. */
async function startHalf(t: Test, breaks: boolean) {
  const server = createServer((req, res) => {
    res.writeHead(200, { 'content-type': 'application/x-ndjson' })
    const from = req.url?.includes('after=') ? 100 : 0
    for (const i of Array.from({ length: from === 0 ? 100 : 7 }, (_, i) => from + i)) {
      res.write(
        `{"cursor":"c-${i}","receivedAt":${midnight + i},"event":{"projectId":"${projectId}","eventId":"e-${i}"}}\n`,
      )
    }
    if (from === 0) res.end()
    else if (breaks) res.write('{"cur', () => req.socket.destroy())
  }).listen(0, '127.0.0.1')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server, 'listening')
  const output = join(t.testdir({}), 'files')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const args = ['export', '--url', url, '--project', projectId, '--output', output, '--retries', '0']
  return { output, args, env: { INGEST_KEY: 'key' } }
}

t.test('a signal: what is finished stays, what is not goes, exit 130 and 143', async (t) => {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    const { output, args, env } = await startHalf(t, false)
    const child = startIngest([...args, '--max-size', '9K'], { env })
    child.stdout.once('data', () => child.kill(signal))
    const { stdout, ...rest } = await ended(child)
    t.match(rest, {
      code,
      stderr: new RegExp(`^ingest: ${signal}: run it again to continue after the existing files\\n$`),
    })
    const [first = '', ...others] = filesIn(output)
    t.equal(stdout.split(':')[0], `wrote ${join(output, first)}`)
    t.strictSame(others, [])
    t.strictSame(readdirSync(output), ['.ingest-export.json', first])
  }
})

t.test('a connection that breaks: what came before is exported, exit 6', async (t) => {
  const { output, args, env } = await startHalf(t, true)
  t.match(await ingest(args, { env }), { code: 6, stdout: 'wrote' })
  t.strictSame(idsIn(output), idsOf('e', 107))
})

t.test('two at once into one directory: the second is refused', async (t) => {
  const { output, args, env } = await startHalf(t, false)
  const first = startIngest([...args, '--max-size', '9K'], { env })
  await once(first.stdout, 'data')
  t.match(await ingest(args, { env }), { code: 2, stderr: `ingest: ${output} is in use by process ` })
  first.kill('SIGKILL')
  await once(first, 'exit')
})
