import { spawnSync } from 'node:child_process'
import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createIngest, type IngestEvent, type Store } from '@ingest/core'
import t from 'tap'
import { builtStore, openLmdbStore } from './built-store.ts'
import { startStoreProcess } from './store-process.ts'

const { verifyLmdbStore } = (await import(builtStore)) as typeof import('../src/index.ts')

/** A file with few free pages takes some for the two commits of its first purge. */
const commitBytes = 8 * 4096

/** How many events a batch has. */
const sizes = { 'small records, in leaf pages': 1, 'large records, on pages of their own': 100 }

for (const [name, perBatch] of Object.entries(sizes)) {
  t.test(`no file contains erased bytes after a purge beside another process: ${name}`, async (t) => {
    const directory = t.testdir()
    const server = await startStoreProcess(directory)
    const store = await openLmdbStore(directory)
    t.teardown(async () => {
      await server.end()
      await store.close()
    })
    await fill(store, 'p', 2 * perBatch * 40, perBatch)
    await server.submit(['other-1'])
    t.ok(countIn(directory, 'canary-') > 0)
    const odd = range(perBatch * 80).filter((i) => i % 2 === 1)
    for (let from = 0; from < odd.length; from += 1000) {
      await store.erase('p', odd.slice(from, from + 1000).map(idOf))
    }
    await store.purge?.()
    t.equal(countIn(directory, 'canary-[0-9]*[13579]-'), 0)
    t.ok(countIn(directory, 'canary-[0-9]*[02468]-') >= odd.length, 'others are there')
    await server.submit(['other-2'])
    while (!(await store.expire('p', 1e15)).isDone) {}
    await store.purge?.()
    await server.submit(['other-3'])
    t.equal(countIn(directory, 'canary-'), 0, 'also after another process has written')
    t.strictSame(await server.known([idOf(0), idOf(1), 'e-x']), [true, true, false])
  })
}

t.test('expiries of several projects share commits, beside appends, and leave no erased bytes', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  const projects = range(40).map((i) => `p-${i}`)
  // the records of all projects are in the same pages
  for (let i = 0; i < 3; i++) await Promise.all(projects.map((projectId) => fill(store, projectId, 4, 1, 4 * i)))
  let requests = 0
  let commits = 0
  const unwatch = store.watchCommits?.((commit) => {
    requests += commit.requests
    commits++
  })
  const appended = createIngest({ store }).project('other')
  const steps = projects.map(async (projectId, i) => {
    const events = [{ projectId: 'other', eventId: `e-${i}` }]
    return (await Promise.all([store.expire(projectId, 1e15), appended.submitBatch({ events })]))[0]
  })
  for (const step of await Promise.all(steps)) t.match(step, { events: 12, isDone: true })
  t.ok(commits < projects.length, `${commits} commits of ${requests} requests`)
  unwatch?.()
  await store.purge?.()
  t.equal(countIn(directory, 'canary-'), 0)
  t.strictSame(
    await store.known(
      'other',
      projects.map((_, i) => idOf(i)),
    ),
    projects.map(() => true),
  )
})

t.test('an expiry that finds nothing to erase commits nothing', async (t) => {
  const store = await openLmdbStore(t.testdir())
  t.teardown(() => store.close())
  await fill(store, 'p', 10, 1)
  let commits = 0
  store.watchCommits?.(() => commits++)
  for (const projectId of ['p', 'unknown']) {
    t.strictSame(await store.expire(projectId, 1), { events: 0, bytes: 0, isDone: true })
  }
  t.equal(commits, 0)
  t.equal((await store.expire('p', 1e15)).events, 10)
  t.strictSame(await store.expire('p', 1e15), { events: 0, bytes: 0, isDone: true })
  t.equal(commits, 1)
})

t.test('the data file does not grow while new events take the space of erased ones', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  await fill(store, 'p', 10_000, 100)
  while (!(await store.expire('p', 1e15)).isDone) {}
  await store.purge?.()
  const before = dataBytes(directory)
  await fill(store, 'q', 5_000, 100)
  t.equal(dataBytes(directory), before)
})

t.test('a purge waits for a snapshot of the last erasure, which keeps what that freed', async (t) => {
  const directory = t.testdir()
  const reader = await startStoreProcess(directory)
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  await fill(store, 'p', 100, 100)
  await store.erase('p', range(50).map(idOf))
  await reader.ask('look')
  let isPurged = false
  const purging = store.purge?.().then(() => {
    isPurged = true
  })
  // no commit, which would be a later snapshot to wait for
  for (let i = 0; i < 2_000 && !isPurged; i++) await store.known('p', ['e-0'])
  await reader.kill()
  await purging
  t.equal(countIn(directory, 'canary-[1-4][0-9]-'), 0)
})

t.test('a purge beside large appends of the same process fills all free pages', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  const submit = (projectId: string, batch: number, secret: string) =>
    createIngest({ store })
      .project(projectId)
      .submitBatch({ events: range(100).map((i) => ({ projectId, eventId: idOf(batch * 100 + i), secret })) })
  for (const batch of range(70)) await submit('p', batch, `canary-${batch % 2}-${'x'.repeat(2000)}`)
  // leaves holes that are too small for the appends
  for (const batch of range(35))
    await store.erase(
      'p',
      range(100).map((i) => idOf((2 * batch + 1) * 100 + i)),
    )
  let isPurged = false
  const purging = store.purge?.().then(() => {
    isPurged = true
  })
  const text = 'x'.repeat(2400)
  const appending = range(8).map(async (sender) => {
    for (let i = 0; !isPurged; i++) await submit(`q-${sender}`, i, text)
  })
  await Promise.all([purging, ...appending])
  t.equal(countIn(directory, 'canary-1-'), 0)
})

t.test('purges write little, and never make the file larger', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  await fill(store, 'p', 2_000, 20)
  const created = dataBytes(directory)
  for (let round = 0; round < 10; round++) {
    await store.erase(
      'p',
      range(5).map((i) => idOf(round + i * 400)),
    )
    const [before, written] = [dataBytes(directory), writtenBytes()]
    await store.purge?.()
    t.ok(dataBytes(directory) <= before + commitBytes)
    t.ok(writtenBytes() - written < 2 ** 20)
  }
  // copies of the pages of one erasure
  t.ok(dataBytes(directory) < created * 1.3)
})

t.test('what a transaction that never committed has written behind the last page is overwritten', async (t) => {
  const directory = t.testdir()
  const created = await openLmdbStore(directory)
  await fill(created, 'p', 10, 10)
  await created.close()
  appendFileSync(join(directory, 'events/data.mdb'), Buffer.alloc(3 * 4096, 'canary-tail-'))
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  await store.erase('p', [idOf(1)])
  const before = dataBytes(directory)
  await store.purge?.()
  t.equal(countIn(directory, 'canary-tail'), 0)
  t.ok(dataBytes(directory) <= before + commitBytes)
})

t.test('opening a store completes the purge of a process that was killed', async (t) => {
  const directory = t.testdir()
  const created = await openLmdbStore(directory)
  await fill(created, 'p', 1_000, 10)
  await created.close()
  const victim = await startStoreProcess(directory)
  await victim.operate('erase', 'p', range(1_000).map(idOf))
  await victim.kill()
  t.ok(countIn(directory, 'canary-') > 0)
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  for (let i = 0; i < 500 && countIn(directory, 'canary-') > 0; i++) await store.known('p', ['e-0'])
  t.equal(countIn(directory, 'canary-'), 0)
})

/** INGEST_SEEDS=200 for more; a failure names its seed: INGEST_SEEDS=1 INGEST_FIRST_SEED=1234. */
const seeds = Number(process.env.INGEST_SEEDS ?? 2)
const firstSeed = Number(process.env.INGEST_FIRST_SEED ?? Math.floor(Math.random() * 1e6))

for (const seed of range(seeds).map((i) => firstSeed + i)) {
  t.test(`after any erasures beside appends and a kill, a purge leaves no erased byte (seed ${seed})`, async (t) => {
    const random = createRandom(seed)
    const directory = t.testdir()
    const whole = new Set<number>()
    const erased = new Set<number>()
    let next = 0
    const append = async (submit: (events: IngestEvent[]) => Promise<unknown>) => {
      const numbers = range(random(6) === 0 ? 1 + random(100) : 1 + random(3)).map(() => next++)
      const pad = 'x'.repeat(random(3) === 0 && numbers.length < 10 ? random(9_000) : random(400))
      await submit(numbers.map((number) => ({ projectId: 'p', eventId: idOf(number), secret: secretOf(number) + pad })))
      for (const number of numbers) whole.add(number)
    }
    const kills = 1 + random(3)
    for (let round = 0; round <= kills; round++) {
      const isLast = round === kills
      const victim = await startStoreProcess(directory)
      const store = await openLmdbStore(directory)
      const project = createIngest({ store }).project('p')
      const submit = (events: IngestEvent[]) => project.submitBatch({ events })
      for (let i = 0; i < 60; i++) await append(submit)
      let isOver = false
      const appending = range(2).map(async () => {
        while (!isOver) await append(submit)
      })
      for (let i = 0; i < 1 + random(3); i++) {
        const chosen = [...whole].filter(() => random(3) === 0).slice(0, 300)
        for (const number of chosen) {
          whole.delete(number)
          erased.add(number)
        }
        await victim.operate('erase', 'p', chosen.map(idOf))
        const purging = victim.operate('purge').catch(() => {})
        if (!isLast) for (let turns = random(400); turns > 0; turns--) await nextTurn()
        else await purging
      }
      if (!isLast) await victim.kill()
      isOver = true
      await Promise.all(appending)
      if (isLast) await victim.end()
      const before = dataBytes(directory)
      if (isLast) await store.purge?.()
      if (isLast) t.ok(dataBytes(directory) <= before + commitBytes)
      await store.close()
    }
    const found = new Set(secretsIn(directory))
    t.strictSame(
      [...erased].filter((number) => found.has(number)),
      [],
    )
    t.strictSame(
      [...whole].filter((number) => !found.has(number)),
      [],
    )
    const { problems, warnings } = await verifyLmdbStore(directory)
    t.strictSame([problems, warnings], [[], []])
  })
}

t.test('a purge leaves nothing of expired activity with text of events, and all of what is kept', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  const random = createRandom(firstSeed)
  const keptMinutes = 200
  // an Ingest would expire older rows
  const start = Date.now()
  const textOf = (number: number) => (number < 0 ? '' : secretOf(number))
  for (let minute = 0; minute < 800; minute++) {
    const hour = minute - (minute % 60)
    const projectIds = range(12).filter((p) => (minute / 150 + p) % 3 < 2)
    const rows = projectIds.flatMap((p) =>
      (['minute', 'hour'] as const).map((span) => {
        const [at, hasEvents] = [span === 'minute' ? minute : hour, p % 2 === 0]
        const pad = 'y'.repeat(random(10) === 0 ? random(9_000) : random(900))
        const body = JSON.stringify([textOf(hasEvents ? at : -1), pad])
        return { projectId: `p${p}`, span, at: start + at, writer: '00000000000000ff', body, hasEvents }
      }),
    )
    await store.putActivity(rows)
    if (minute % 5 === 0) await fill(store, 'q', 1 + random(9), 1, 10_000 + minute * 10)
    if (minute % 200 !== 199) continue
    await store.expireActivity(start + minute - keptMinutes)
    await store.purge?.()
    const found = secretsIn(directory).filter((number) => number < 10_000)
    t.equal(Math.min(...found), Math.max(0, minute - keptMinutes))
    t.equal(new Set(found).size, Math.min(minute + 1, keptMinutes + 1))
  }
  const before = writtenBytes()
  await store.purge?.()
  t.ok(writtenBytes() - before < 4096, 'a purge of nothing writes nothing')
})

t.test('the text of a rejected event leaves the files once its samples have expired', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  const hourMs = 3_600_000
  let now = 500_000 * hourMs
  const options = { rejected: { keepEvents: true }, activity: { keepMs: hourMs } }
  const ingest = createIngest({ store, now: () => now, ...options })
  t.teardown(() => ingest.close())
  await ingest.project('p').submitBatch(Buffer.from('{"events":[{"note":"canary-note"}]}'))
  now += 60_000
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'a' }] })
  for (let i = 0; i < 500 && countIn(directory, 'canary-note') === 0; i++) await store.known('p', ['a'])
  t.ok(countIn(directory, 'canary-note') > 0)
  now += 3 * hourMs
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'b' }] })
  for (let i = 0; i < 500 && countIn(directory, 'canary-note') > 0; i++) await store.known('p', ['a'])
  t.equal(countIn(directory, 'canary-note'), 0)
})

t.test('a process that is killed while it erases and purges leaves each event whole or erased', async (t) => {
  const directory = t.testdir()
  let store = await openLmdbStore(directory)
  await fill(store, 'p', 2_000, 20)
  await store.close()
  for (const turns of [1, 20, 200]) {
    const victim = await startStoreProcess(directory)
    const calls = [
      victim.operate(
        'erase',
        'p',
        range(50).map((i) => idOf(i * turns)),
      ),
      victim.operate('expire', 'p', 1e15).then(() => victim.operate('purge')),
    ].map((call) => call.catch(() => {}))
    for (let i = 0; i < turns; i++) await nextTurn()
    await victim.kill()
    await Promise.all(calls)
    store = await openLmdbStore(directory)
    const seen = { events: 0, bytes: 0 }
    for await (const { bytes, erased } of store.read('p', { erased: true })) {
      seen.events++
      if (erased === undefined) seen.bytes += JSON.parse(Buffer.from(bytes).toString()).eventId ? 1 : 0
    }
    const { events, bytes } = await store.totals('p')
    t.equal(seen.events, 2_000)
    t.equal(events, 2_000)
    t.equal(bytes === 0, seen.bytes === 0)
    await store.purge?.()
    await store.close()
  }
})

async function fill(store: Store, projectId: string, count: number, perBatch: number, from = 0): Promise<void> {
  const project = createIngest({ store }).project(projectId)
  const batches = range(count / perBatch).map((batch) =>
    range(perBatch).map((i) => {
      const number = from + batch * perBatch + i
      return { projectId, eventId: idOf(number), secret: `canary-${number}-${'x'.repeat(200)}` }
    }),
  )
  await Promise.all(batches.map((events) => project.submitBatch({ events })))
}

function idOf(number: number): string {
  return `e-${number}`
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

/**
 * How often the files of a directory contain a pattern. Another process reads them: closing the lock file would release
 * the locks of this one.
 */
function countIn(directory: string, pattern: string): number {
  const { status, stdout } = spawnSync('grep', ['-raoE', pattern, directory], { maxBuffer: 2 ** 28 })
  t.ok(status === 0 || status === 1)
  return stdout.toString().split('\n').length - 1
}

function dataBytes(directory: string): number {
  return statSync(join(directory, 'events/data.mdb')).size
}

/** The bytes that this process has written; 0 where the system does not count them. */
function writtenBytes(): number {
  return process.platform === 'linux' ? Number(/^wchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]) : 0
}

function secretOf(number: number): string {
  return `canary-${number}-`
}

function secretsIn(directory: string): number[] {
  const { stdout } = spawnSync('grep', ['-raohE', 'canary-[0-9]+-', directory], { maxBuffer: 2 ** 28 })
  return Array.from(stdout.toString().matchAll(/canary-(\d+)-/g), ([, number]) => Number(number))
}

/** Integers below a limit, the same ones for a seed. */
function createRandom(seed: number): (limit: number) => number {
  let state = seed
  return (limit) => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
  }
}
