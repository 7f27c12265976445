import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { openLmdbStore, openLmdbStoreWith } from '../src/open-lmdb-store.ts'
import { builtStore, openLmdbStore as openBuiltStore } from './built-store.ts'
import { noStrace, type StoreProcess, startStoreProcess } from './store-process.ts'

const ids = (name: string, count = 20) => Array.from({ length: count }, (_, i) => `${name}-${i}`)

async function eventIdsIn(directory: string): Promise<string[]> {
  const store = await openLmdbStore(directory, { create: false })
  const found: string[] = []
  for await (const page of store.read('p'))
    for (const { bytes } of page) found.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  t.equal((await store.totals('p')).events, found.length, 'the totals agree with a scan')
  const builds = found.map((eventId) => store.map({ projectId: 'p', placeId: '1', buildId: `build-${eventId}` }))
  t.ok(
    (await Promise.all(builds)).every(({ frozenAt }) => frozenAt !== undefined),
    'the build of each is frozen',
  )
  await store.close()
  return found
}

t.test('a directory without a store is refused with `create: false`', async (t) => {
  const directory = join(t.testdir(), 'none')
  await t.rejects(openLmdbStore(directory, { create: false }), { code: 'store-missing' })
  const store = await openLmdbStore(directory)
  await store.close()
  await (await openLmdbStore(directory, { create: false })).close()
  const empty = t.testdir({ events: { 'data.mdb': '' } })
  await t.rejects(openLmdbStore(empty, { create: false }), { code: 'store-missing' })
})

t.test('a process that changes its working directory keeps its store', async (t) => {
  const before = process.cwd()
  const directory = t.testdir({ elsewhere: {} })
  t.teardown(() => process.chdir(before))
  process.chdir(directory)
  const ingest = createIngest({ store: await openLmdbStore('data') })
  t.teardown(() => ingest.close())
  process.chdir('elsewhere')
  t.equal((await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e-1' }] })).accepted, 1)
})

t.test('a directory that cannot be created is refused', async (t) => {
  const directory = t.testdir({ file: '' })
  await t.rejects(openLmdbStore(join(directory, 'file', 'data')), { code: 'invalid-argument' })
})

t.test('a bug while opening is an internal error, not a store that has failed', async (t) => {
  const directory = join(t.testdir(), 'data')
  // a bug in the thread, and one in this thread, which cannot send the option
  for (const entriesPerFlush of [2 ** 60, (() => 1) as unknown as number]) {
    await t.rejects(openBuiltStore(directory, { internals: { entriesPerFlush } }), {
      code: 'internal-error',
      cause: /^(RangeError|DataCloneError)/,
    })
  }
  await (await openBuiltStore(directory)).close()
})

t.test('a process can have a directory open only once', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  await t.rejects(openLmdbStore(join(directory, '.')), { code: 'invalid-argument' })
  await store.close()
  await (await openLmdbStore(directory)).close()
})

t.test('a worker thread cannot open a store', async (t) => {
  const url = JSON.stringify(new URL('../src/open-lmdb-store.js', import.meta.url).href)
  const source = `
    const { parentPort, workerData } = require('node:worker_threads')
    import(${url})
      .then(({ openLmdbStore }) => openLmdbStore(workerData))
      .then(() => 'opened', ({ code }) => code)
      .then((outcome) => parentPort.postMessage(outcome))`
  const directory = join(t.testdir(), 'data')
  const worker = new Worker(source, { eval: true, workerData: directory, execArgv: [] })
  const [outcome] = await once(worker, 'message')
  t.equal(outcome, 'invalid-argument')
  t.notOk(existsSync(directory))
  await worker.terminate()
})

t.test('a damaged record is an error, and is not returned', async (t) => {
  const directory = t.testdir()
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'a', marker: 'undamaged' }] })
  await ingest.close()
  const path = join(directory, 'events', 'data.mdb')
  writeFileSync(path, readFileSync(path, 'latin1').replaceAll('undamaged', 'undamagEd'), 'latin1')
  const store = await openLmdbStore(directory)
  await t.rejects(store.read('p')[Symbol.asyncIterator]().next(), { code: 'store-damaged' })
  await t.rejects(store.find('p', 'a'), { code: 'store-damaged' })
  await store.close()
})

t.test('the memory of a body is transferred only where the caller allows it', async (t) => {
  const ingest = createIngest({ store: await openLmdbStore(t.testdir()) })
  const project = ingest.project('p')
  const bodyOf = (eventId: string) => new TextEncoder().encode(`{"events":[{"projectId":"p","eventId":"${eventId}"}]}`)
  const kept = bodyOf('kept')
  await project.submitBatch(kept)
  t.strictSame(kept, bodyOf('kept'))
  const given = bodyOf('given')
  await project.submitBatch(given, { mayTransfer: true })
  t.equal(given.length, 0)
  // part of a larger memory
  const part = Buffer.concat([Buffer.from('  '), bodyOf('part')]).subarray(2)
  await project.submitBatch(part, { mayTransfer: true })
  t.strictSame(Uint8Array.from(part), bodyOf('part'))
  for (const eventId of ['kept', 'given', 'part']) {
    const found = await project.findEvent(eventId)
    t.equal(String(found?.bytes), `{"projectId":"p","eventId":"${eventId}"}`)
  }
  await t.rejects(project.submitBatch(given), { code: 'malformed-body' }, 'bytes that are gone')
  await ingest.close()
})

t.test('a record with malformed content does not affect other records', async (t) => {
  const directory = t.testdir()
  const fatal: string[] = []
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const events = [{ projectId: 'p', eventId: 'a', marker: 'undamaged' }]
  await ingest.project('p').submitBatch({ events })
  await ingest.close()
  const path = join(directory, 'events', 'data.mdb')
  // a bracket that is never closed
  writeFileSync(path, readFileSync(path, 'latin1').replaceAll('"undamaged"}', '"undamaged"{'), 'latin1')
  const store = await openLmdbStore(directory, { onFatal: ({ code }) => fatal.push(code) })
  const again = createIngest({ store })
  const mixed = { events: [...events, { projectId: 'p', eventId: 'b' }] }
  await t.rejects(again.project('p').submitBatch(mixed), { code: 'store-damaged' })
  await t.rejects(store.known('p', ['a']), { code: 'store-damaged' })
  t.equal((await again.project('p').submitBatch({ events: mixed.events.slice(1) })).accepted, 1)
  t.strictSame(fatal, [])
  await again.close()
})

t.test('a batch that needs a damaged record does not affect those that share its commit', async (t) => {
  const directory = t.testdir()
  const fatal: string[] = []
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const damaged = { events: [{ projectId: 'p', eventId: 'a', marker: 'undamaged' }] }
  await ingest.project('p').submitBatch(damaged)
  await ingest.close()
  const path = join(directory, 'events', 'data.mdb')
  writeFileSync(path, readFileSync(path, 'latin1').replaceAll('"undamaged"}', '"undamaged"{'), 'latin1')
  const again = createIngest({
    store: await openLmdbStore(directory, { onFatal: ({ code }) => fatal.push(code) }),
  })
  const project = again.project('p')
  // not the stored batch itself: this one needs the record of its event
  const conflicting = { events: [{ projectId: 'p', eventId: 'a', marker: 'other' }] }
  const others = Array.from({ length: 30 }, (_, i) =>
    i % 10 === 5
      ? project.submitBatch(conflicting)
      : project.submitBatch({ events: [{ projectId: 'p', eventId: `${i}` }] }),
  )
  const created = again.keys.create('p')
  const settled = await Promise.allSettled(others)
  t.strictSame(
    settled.map((each) => (each.status === 'fulfilled' ? each.value.accepted : each.reason.code)),
    settled.map((_, i) => (i % 10 === 5 ? 'store-damaged' : 1)),
  )
  t.match(await again.keys.list('p'), [{ keyId: (await created).record.keyId }])
  t.equal((await again.project('p').getStats()).events, 28)
  t.strictSame(fatal, [])
  await again.close()
})

t.test('three processes that submit overlapping ids store each once, even when they are killed', async (t) => {
  const directory = t.testdir()
  const accepted = new Map<string, number>()
  const acknowledged = new Set<string>()
  const pool = ids('overlap', 600)
  // small runs, so that the processes flush and merge all the time
  const start = () => startStoreProcess(directory, { entriesPerFlush: 30 })
  const processes = await Promise.all([0, 1, 2].map(start))

  async function submitAll(slot: number): Promise<void> {
    for (let at = 0; at < pool.length; at += 50) {
      // each in its own order, so that batches overlap
      const batch =
        slot === 0
          ? pool.slice(at, at + 50)
          : pool.filter((_, i) => (i * (slot + 6)) % 600 >= at && (i * (slot + 6)) % 600 < at + 50)
      if (at === 200 + slot * 100) {
        const lost = (processes[slot] as StoreProcess).submit(batch).catch(() => undefined)
        await (processes[slot] as StoreProcess).kill()
        await lost
        processes[slot] = await start()
      }
      const result = await (processes[slot] as StoreProcess).submit(batch)
      t.equal(result.accepted + result.duplicates, batch.length)
      accepted.set(`${slot}-${at}`, result.accepted)
      for (const eventId of batch) acknowledged.add(eventId)
    }
  }

  await Promise.all([submitAll(0), submitAll(1), submitAll(2)])
  await Promise.all(processes.map((each) => each.kill()))
  const stored = await eventIdsIn(directory)
  t.equal(new Set(stored).size, stored.length, 'none is stored twice')
  t.same(new Set(stored), new Set(pool), 'each is stored')
  t.equal(acknowledged.size, pool.length)
  const sum = [...accepted.values()].reduce((a, b) => a + b, 0)
  t.ok(sum <= pool.length, `${sum} acknowledged as accepted: a killed process may not acknowledge what it stored`)
})

const cycles = Number(process.env.INGEST_KILL_CYCLES ?? 20)

t.test(`a process that is killed ${cycles} times under load loses nothing that it acknowledged`, async (t) => {
  const directory = t.testdir()
  const acknowledged: string[] = []
  const sent: string[] = []
  for (let cycle = 0; cycle < cycles; cycle++) {
    // every other time with runs of one batch, so that it is killed in the middle of flushes and merges
    const child = await startStoreProcess(directory, cycle % 2 === 0 ? { entriesPerFlush: 20 } : {})
    const unanswered = new Set<string[]>()
    const wanted = 1 + ((cycle * 7) % 23)
    let answered = 0
    const load = Array.from({ length: 8 }, async (_, lane) => {
      for (let i = 0; answered < wanted; i++) {
        const batch = ids(`${cycle}-${lane}-${i}`)
        sent.push(...batch)
        unanswered.add(batch)
        await child.submit(batch)
        unanswered.delete(batch)
        acknowledged.push(...batch)
        answered++
      }
      // while requests of the other lanes are in flight
      await child.kill()
    })
    await Promise.allSettled(load)
    await child.kill()
  }
  const stored = await eventIdsIn(directory)
  const storedSet = new Set(stored)
  t.equal(storedSet.size, stored.length, 'none twice')
  t.same(
    acknowledged.filter((eventId) => !storedSet.has(eventId)),
    [],
    `none of ${acknowledged.length} lost`,
  )
  const sentSet = new Set(sent)
  t.same(
    stored.filter((eventId) => !sentSet.has(eventId)),
    [],
    'none invented',
  )
  const last = await startStoreProcess(directory)
  for (let at = 0; at < sent.length; at += 100) {
    const { accepted, duplicates } = await last.submit(sent.slice(at, at + 100))
    t.equal(accepted + duplicates, Math.min(100, sent.length - at))
  }
  await last.kill()
  t.same(new Set(await eventIdsIn(directory)), sentSet, 'a retry of everything completes it')
})

t.test('disk errors', { skip: noStrace }, async (t) => {
  await t.test('a commit whose sync fails is rejected and never visible, and the store has failed', async (t) => {
    const directory = t.testdir()
    const other = await openLmdbStore(directory)
    const child = await startStoreProcess(directory, { inject: ['fdatasync:error=EIO:when=8+'] })
    let failed: string[] | undefined
    for (let i = 0; failed === undefined && i < 50; i++) {
      const batch = ids(`eio-${i}`)
      let settled = false
      const submitted = child.submit(batch).then(
        () => undefined,
        (error) => {
          t.equal(error.code, 'store-failed')
          return batch
        },
      )
      const watching = (async () => {
        const seen: boolean[][] = []
        while (!settled) {
          seen.push(await other.known('p', batch))
          await new Promise(setImmediate)
        }
        return seen
      })()
      failed = await submitted
      settled = true
      if (failed) t.notOk((await watching).flat().includes(true), 'nothing was visible before it was durable')
    }
    t.ok(failed, 'the fault was injected')
    t.same(
      await other.known('p', failed ?? []),
      ids('', 20).map(() => false),
      'nor afterwards',
    )
    await t.rejects(child.submit(['later']), { code: 'store-failed' })
    await t.rejects(child.ask('check'), { code: 'store-failed' })
    t.same(child.fatal, ['store-failed'], 'reported once')
    t.same(child.unhandled, [])
    await child.kill()
    await other.close()
    const again = await startStoreProcess(directory)
    t.equal((await again.submit(failed ?? [])).accepted, 20, 'a retry after a restart stores it')
    await again.kill()
  })

  await t.test('a full disk rejects batches until it has space again', async (t) => {
    const directory = t.testdir()
    await (await openLmdbStore(directory)).close()
    const child = await startStoreProcess(directory, { inject: ['fdatasync:error=ENOSPC:when=8..10'] })
    const codes: string[] = []
    let lastAccepted = 0
    for (let i = 0; i < 30; i++) {
      await child.submit(ids(`full-${i}`)).then(
        ({ accepted }) => {
          lastAccepted = accepted
        },
        (error) => {
          lastAccepted = 0
          codes.push(error.code)
        },
      )
    }
    t.same(codes, ['disk-full', 'disk-full', 'disk-full'])
    t.equal(lastAccepted, 20)
    t.same(child.fatal, [])
    t.same(child.unhandled, [])
    await child.kill()
  })

  await t.test('a store that cannot be created rejects with the reason', async (t) => {
    await t.rejects(startStoreProcess(t.testdir(), { inject: ['fdatasync:error=ENOSPC'] }), { code: 'disk-full' })
    await t.rejects(startStoreProcess(t.testdir(), { inject: ['fdatasync:error=EIO'] }), { code: 'store-failed' })
  })

  await t.test('a disk that fails while the header is written fails every request', async (t) => {
    const directory = t.testdir()
    await (await openLmdbStore(directory)).close()
    const inject = ['pwrite64:error=EIO:when=20+']
    const child = await startStoreProcess(directory, { inject, commitTimeoutMs: 2000 })
    const acknowledged: string[] = []
    const codes = new Set<string>()
    for (let i = 0; i < 40; i++) {
      const batch = ids(`header-${i}`)
      await child.submit(batch).then(
        () => acknowledged.push(...batch),
        (error) => codes.add(error.code ?? error.message),
      )
    }
    t.same([...codes], ['store-failed'])
    await t.rejects(child.known(['x']), { code: 'store-failed' })
    t.same(child.fatal, ['store-failed'])
    t.same(child.unhandled, [])
    await child.kill()
    const stored = new Set(await eventIdsIn(directory))
    t.same(
      acknowledged.filter((eventId) => !stored.has(eventId)),
      [],
      'what was acknowledged is stored',
    )
  })
})

t.test('concurrent readers share one step in each turn of the event loop', async (t) => {
  const store = await openLmdbStore(t.testdir())
  const ingest = createIngest({ store })
  const note = 'x'.repeat(1000)
  for (let batch = 0; batch < 8; batch++) {
    const events = ids(`e${batch}`, 90).map((eventId) => ({ projectId: 'p', eventId, note }))
    await ingest.project('p').submitBatch({ events })
  }
  let turnBytes = 0
  let turnBytesMost = 0
  let isReading = true
  setImmediate(function countTurn() {
    turnBytesMost = Math.max(turnBytesMost, turnBytes)
    turnBytes = 0
    if (isReading) setImmediate(countTurn)
  })
  async function read() {
    let events = 0
    for await (const page of store.read('p')) {
      for (const { bytes } of page) turnBytes += bytes.length
      events += page.length
    }
    return events
  }
  t.strictSame(await Promise.all(Array.from({ length: 16 }, read)), new Array(16).fill(720))
  isReading = false
  t.ok(turnBytesMost < 2 * 32_768 + 2000, `${turnBytesMost} bytes in a turn`)
  await ingest.close()
})

t.test('each turn of the event loop reads one map', async (t) => {
  const store = await openLmdbStore(t.testdir())
  const ingest = createIngest({ store })
  await ingest.project('p').publishMap({ placeId: '1', buildId: 'b', map: {} })
  let turn = 0
  let isReading = true
  setImmediate(function countTurn() {
    turn++
    if (isReading) setImmediate(countTurn)
  })
  const map = { projectId: 'p', placeId: '1', buildId: 'b' }
  const turns = await Promise.all(Array.from({ length: 8 }, () => store.map(map).then(() => turn)))
  isReading = false
  t.equal(new Set(turns).size, 8, `read in the turns ${turns}`)
  await ingest.close()
})

for (const [where, entriesPerFlush] of [
  ['in memory', 1000],
  ['in a run', 20],
] as const) {
  t.test(`a page of zeros in the log does not make its ids, which are ${where}, new`, async (t) => {
    const directory = t.testdir()
    const internals = { entriesPerFlush }
    const ingest = createIngest({ store: await openLmdbStoreWith(directory, {}, internals) })
    const batches = ['a', 'b', 'c', 'd'].map((name) => ({
      events: ids(name).map((eventId) => ({ projectId: 'p', eventId, pad: 'x'.repeat(400) })),
    }))
    for (const batch of batches) await ingest.project('p').submitBatch(batch)
    while (entriesPerFlush < 100 && !isIndexed(directory)) await nextTurn()
    await ingest.close()
    const path = join(directory, 'events', 'data.mdb')
    const bytes = readFileSync(path)
    const page = bytes.indexOf('"eventId":"b-0"') & ~4095
    bytes.fill(0, page, page + 4096)
    writeFileSync(path, bytes)
    const again = openLmdbStoreWith(directory, {}, internals)
    if (entriesPerFlush > 100) return t.rejects(again, { code: 'store-damaged' })
    const store = await again
    await t.rejects(
      createIngest({ store })
        .project('p')
        .submitBatch(batches[1] as (typeof batches)[number]),
      {
        code: 'store-damaged',
      },
    )
    await t.rejects(store.known('p', ['b-3']), { code: 'store-damaged' })
    await store.close()
  })
}

/** Whether all four records are in runs. */
function isIndexed(directory: string): boolean {
  return readFileSync(join(directory, 'ids', 'data.mdb'), 'latin1').includes('"watermark":4')
}

t.test('the directories that name a new store are synced', { skip: noStrace }, async (t) => {
  const directory = t.testdir()
  const trace = join(directory, 'trace')
  const data = join(directory, 'a', 'b')
  const program = `const { openLmdbStore } = await import('${builtStore}'); await (await openLmdbStore('${data}')).close()`
  const args = [
    '-f',
    '-qq',
    '-y',
    '-e',
    'trace=fsync',
    '-o',
    trace,
    process.execPath,
    '--input-type=module',
    '-e',
    program,
  ]
  const { status } = spawnSync('strace', args, { env: { ...process.env, NODE_OPTIONS: '' } })
  t.equal(status, 0)
  const synced = readFileSync(trace, 'utf8')
  for (const each of [
    directory,
    join(directory, 'a'),
    data,
    ...['events', 'ids', 'chunks'].map((name) => join(data, name)),
  ]) {
    t.match(synced, `<${each}>)`)
  }
})
