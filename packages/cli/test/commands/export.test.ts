import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import {
  ended,
  ingestCommand,
  noStrace,
  ownEnvironment,
  spawnWithFault,
  startCommand,
  startIngest,
} from '../ingest-process.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { idsOf, openServed, parseExport, projectId, send, submitIds, withStore } from '../served.ts'

const served = await openServed(t)
const { env } = served
const print = (...args: string[]) => ingest(['export', ...args], { env })

/** JSON texts that parsing and serializing would change. */
const odd = [
  '{"projectId":"game-1","eventId":"numbers","big":12345678901234567890123,"f":1.0,"e":1E+2,"z":-0,"p":0.1000}',
  '{ "projectId" :\t"game-1" ,  "eventId": "spaces" , "list":[ 1,2 , 3 ] }',
  '{"projectId":"game-1","eventId":"üñ\\u00ef 😀 \u2028","\\u0061":"\\/","k":1,"k":2,"__proto__":{"a":1}}',
  '{\r\n  "projectId":"game-1",\n  "eventId":"lines",\r\n\t"text":"a\\nb"\n}',
]
const asOneLine = odd.map((text) => text.replaceAll(/[\r\n]/g, ' '))
const small = idsOf('small', 5)
const before = Date.now()
await send(served, `{"events" : [${odd.join(' ,\n')}], "other": {"events":[1]}}`)
await send(served, small)
const after = Date.now()

const whole = await print()
const lines = parseExport(whole.stdout)
const all = whole.stdout.split(/(?<=\n)/)

t.test('all stored events are printed byte for byte, one per line, with their cursors and times', async (t) => {
  t.match(whole, { code: 0, stderr: /^$/ })
  t.strictSame(
    lines.map(({ event }) => event),
    [...asOneLine, ...small.map((eventId) => JSON.stringify({ projectId, eventId }))],
    'in the order of the batches and within them',
  )
  for (const line of all) t.strictSame(Object.keys(JSON.parse(line)), ['cursor', 'receivedAt', 'event'])
  t.ok(lines.every(({ receivedAt }) => receivedAt >= before && receivedAt <= after))
  t.equal(new Set(lines.map(({ cursor }) => cursor)).size, lines.length)
  t.equal((await print('--json')).stdout, whole.stdout, '--json is the same')
  const failed = /^\{"ok":false,"error":\{"code":"invalid-cursor",.*\}\}\n$/
  t.match(await print('--json', '--after', 'nonsense'), { code: 2, stdout: failed })
})

t.test('--after resumes after any event, and --limit is the maximum number of events', async (t) => {
  for (const at of [0, 3, 8]) {
    for (const limit of [0, 1, 5, lines.length + 1]) {
      const { code, stdout, stderr } = await print('--after', lines[at]?.cursor ?? '', '--limit', String(limit))
      t.match({ code, stderr }, { code: 0, stderr: /^$/ })
      t.equal(stdout, all.slice(at + 1, at + 1 + limit).join(''))
    }
  }
})

t.test('files are not written into the directory of the store', async (t) => {
  const path = t.testdir()
  const data = join(path, 'data')
  t.match(await ingest(['keys', 'create', '--store', data, '--project', projectId]), { code: 0 })
  symlinkSync(data, join(path, 'link'))
  const before = readdirSync(data)
  const outside = join(path, 'files')
  for (const args of [
    [data],
    [join(data, 'events', 'new')],
    [join(path, 'link')],
    [outside, '--cursor-file', join(data, 'c')],
  ]) {
    const command = ['export', '--store', data, '--project', projectId, '--output', ...args]
    await isWrongUsage(t, command, /is inside of the store: name another path/)
  }
  t.strictSame([readdirSync(data), existsSync(outside)], [before, false])
})

const hourMs = 3_600_000
const midnight = Date.UTC(2026, 10, 20)

/** A served store, and a directory for files. */
async function openExport(t: Test, now = Date.now) {
  const output = join(t.testdir({}), 'files')
  const served = await openServed(t, { now })
  const run = (...args: string[]) => ingest(['export', '--output', output, ...args], { env: served.env })
  return { ...served, output, run, args: ['export', '--output', output] }
}

const filesIn = (output: string) => readdirSync(output).filter((name) => !name.startsWith('.'))

function textOf(path: string): string {
  const bytes = readFileSync(path)
  return path.endsWith('.gz') ? gunzipSync(bytes).toString() : bytes.toString()
}

function idsOfLines(text: string): string[] {
  return parseExport(text).map(({ event }) => JSON.parse(event).eventId)
}

/** The ids of the events in the files of a directory, in the order of their names. */
function idsIn(output: string): string[] {
  const texts = filesIn(output).map((name) => textOf(join(output, name)))
  return idsOfLines(texts.join(''))
}

t.test('files have at most --max-size, and together hold what export prints', async (t) => {
  const { project, args, output, env } = await openExport(t)
  await submitIds(project, idsOf('e', 1000))
  const whole = (await ingest(['export'], { env })).stdout
  for (const [extension, ...options] of [['ndjson'], ['ndjson.gz', '--gzip']]) {
    rmSync(output, { recursive: true, force: true })
    const { code, stdout, stderr } = await ingest([...args, '--max-size', '10K', ...options], { env })
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

t.test('Parquet has typed columns; values of another type are null and counted', async (t) => {
  const { project, run, output } = await openExport(t)
  const scores = ['7', '"seven"', '7.5', 'null']
  const texts = scores.map((score, i) => `{"projectId":"${projectId}","eventId":"e-${i}","p":{"score":${score}}}`)
  await project.submitBatch(Buffer.from(`{"events":[${texts.join()}]}`))
  const columns = ['--format', 'parquet', '--column', 'score=/p/score:int', '--column', 'at:=/at=:timestamp']
  t.match(await run(...columns, '--no-event', '--limit', '3'), {
    code: 0,
    stdout: /exported 3 events: 1 file, .* s; values of another type, which are null: score 2\n$/,
  })
  const json = await run(...columns, '--no-event', '--json')
  t.match(JSON.parse(json.stdout), { events: 1, mistyped: {}, files: [{ events: 1 }] })
  const text = readFileSync(join(output, filesIn(output)[0] ?? '')).toString('latin1')
  t.strictSame([text.slice(0, 4), text.slice(-4)], ['PAR1', 'PAR1'])
  for (const name of ['score', 'at:']) t.match(text, name)
  t.notMatch(text, '"eventId"', 'no whole event')
})

t.test('a file for each hour, and none for the current one', async (t) => {
  let now = midnight - hourMs
  const { project, run, output } = await openExport(t, () => now)
  const received = [-1, 0, 10, 59.99, 60, 61, 240].map((minutes) => midnight + minutes * 60_000)
  received.push(Date.now())
  for (const [i, at] of received.entries()) {
    now = at
    await submitIds(project, [`e-${i}`])
  }
  t.match(await run('--every', 'hour'), { code: 0, stdout: 'exported 7 events: 4 files' })
  t.strictSame(filesIn(output), [
    'game-1-00000001-20261119T235900Z.ndjson',
    'game-1-00000002-20261120T000000Z.ndjson',
    'game-1-00000003-20261120T010000Z.ndjson',
    'game-1-00000004-20261120T040000Z.ndjson',
  ])
  t.match(await run('--every', 'hour'), {
    code: 0,
    stdout: 'no new events of a completed hour',
  })
  t.match(await run(), { code: 0, stdout: 'exported 1 event: 1 file' })
  t.strictSame(idsIn(output), idsOf('e', 8))
})

/** A consumer that moves some of the files away between runs. */
function openConsumer(output: string) {
  const taken = join(output, '..', 'taken')
  mkdirSync(taken)
  const seen = new Map<string, string>()
  return {
    taken,
    /** Asserts that no file has changed or come back, and moves away those that `takes` selects. */
    inspect(t: Test, takes: (name: string) => boolean) {
      if (!existsSync(output)) return
      for (const name of filesIn(output)) {
        const text = textOf(join(output, name))
        if ((seen.get(name) ?? text) !== text) t.fail(`${name} has changed`)
        if (existsSync(join(taken, name))) t.fail(`${name} was written again`)
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

t.test('killed at random and run again, it exports each event exactly once', async (t) => {
  const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31)
  t.comment(`SEED=${seed}`)
  const random = numbersFrom(seed)
  const { project, args: exportArgs, output, env } = await openExport(t)
  const args = [...exportArgs, '--max-size', '20K', ...(random(2) ? ['--gzip'] : [])]
  const ids: string[] = []
  const more = async (count: number) => {
    const some = idsOf(`e-${ids.length}`, count)
    await submitIds(project, some, 'x'.repeat(200))
    ids.push(...some)
  }
  await more(3000)
  const consumer = openConsumer(output)
  let kills = 0
  for (let run = 0; run < 6; run++) {
    const child = startIngest(args, { env })
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
    consumer.inspect(t, () => random(2) === 0)
  }
  t.ok(kills > 2, `it was killed ${kills} times`)
  t.match(await ingest(args, { env }), { code: 0, stderr: '' })
  consumer.inspect(t, () => true)
  t.strictSame(filesIn(output), [])
  t.ok(idsIn(consumer.taken).join() === ids.join(), 'each event once, in order')
})

const locksIn = (output: string) =>
  existsSync(output) ? readdirSync(output).filter((name) => name.includes('.lock')) : []

/** Uses a single thread for system calls, so that the n-th call is always the same. */
const singleThread = (env: Record<string, string>) => ({ ...env, UV_THREADPOOL_SIZE: '1' })

t.test('killed at each step of writing a file, it exports each event exactly once', { skip: noStrace }, async (t) => {
  const { project, args, output, env } = await openExport(t)
  const consumer = openConsumer(output)
  const ids: string[] = []
  const cut = ['--max-size', '4K']
  // a file takes 5 syncs and 2 renames, and completing the last one of the run before 2 and 1
  const steps = [1, 2, 3, 4, 5].map((n) => `fsync:signal=SIGKILL:when=${n}`)
  steps.push(...[1, 2, 3].map((n) => `rename:signal=SIGKILL:when=${n}`))
  for (const [i, step] of steps.entries()) {
    const some = idsOf(`e-${i}`, 100)
    await submitIds(project, some)
    ids.push(...some)
    // taking over a stale lock is a rename too
    for (const name of locksIn(output)) rmSync(join(output, name))
    const killed = await spawnWithFault([...args, ...cut], step, singleThread(env))
    t.match(killed, { code: null, signal: 'SIGKILL' }, step)
    consumer.inspect(t, () => i % 2 === 0)
  }
  t.match(await ingest([...args, ...cut], { env }), { code: 0, stderr: '' })
  consumer.inspect(t, () => true)
  t.strictSame(idsIn(consumer.taken), ids)
  t.strictSame(
    readdirSync(output).filter((name) => name.endsWith('.part')),
    [],
  )
})

t.test('a full disk: exit code 6, no partial file, and the next run continues', { skip: noStrace }, async (t) => {
  const { project, args, output, env } = await openExport(t)
  await submitIds(project, idsOf('e', 200))
  for (const n of [1, 3]) {
    t.match(await spawnWithFault([...args, '--max-size', '8K'], `fsync:error=ENOSPC:when=${n}`, singleThread(env)), {
      code: 6,
      stderr: /^ingest: .* cannot be written: ENOSPC: [^,']*\n$/,
    })
    t.strictSame(readdirSync(output), [])
  }
  t.match(await ingest(args, { env }), { code: 0 })
  t.strictSame(idsIn(output), idsOf('e', 200))
})

const noLimit = spawnSync('prlimit', ['--version']).status !== 0 && 'prlimit(1) is not installed'
t.test('a file size limit is a full disk: exit code 6, and the next run continues', { skip: noLimit }, async (t) => {
  const { project, args, output, env } = await openExport(t)
  await submitIds(project, idsOf('e', 200))
  const command = ['prlimit', '--fsize=4096', ...ingestCommand(args)]
  t.match(await ended(startCommand(command, { ...ownEnvironment(), ...env })), {
    code: 6,
    stderr: /^ingest: .* cannot be written: EFBIG: [^,']*\n$/,
  })
  t.strictSame(readdirSync(output), [])
  t.match(await ingest(args, { env }), { code: 0 })
  t.strictSame(idsIn(output), idsOf('e', 200))
})

t.test('a damaged record: all events before it are exported', async (t) => {
  const data = join(t.testdir({}), 'data')
  const output = join(t.testdirName, 'files')
  const args = ['export', '--store', data, '--project', projectId, '--output', output]
  await withStore(data, async (project) => {
    for (const batch of ['a', 'b', 'c']) await submitIds(project, idsOf(batch, 3), batch.repeat(50))
  })
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
  t.strictSame(idsOfLines(printed.stdout), good)
  t.match(await ingest(args), damage)
  t.strictSame(idsIn(output), good)
  t.match(JSON.parse((await ingest([...args, '--json'])).stdout), {
    ok: false,
    error: { code: 'store-damaged', retryable: false },
  })
  t.strictSame(idsIn(output), good)
})

/** A server with a page of 100 events and a part of the next one, after which it waits or resets the connection. */
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

t.test('a signal removes only the incomplete file: exit codes 130 and 143', async (t) => {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    const { output, args, env } = await startHalf(t, false)
    const running = startRun([...args, '--max-size', '9K'], { env })
    await running.nextLine()
    running.signal(signal)
    const { stdout, ...rest } = await running.exited
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

t.test('a reset connection: all events before it are exported, exit code 6', async (t) => {
  const { output, args, env } = await startHalf(t, true)
  t.match(await ingest(args, { env }), { code: 6, stdout: 'wrote' })
  t.strictSame(idsIn(output), idsOf('e', 107))
})
