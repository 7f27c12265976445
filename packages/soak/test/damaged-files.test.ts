import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createClient, createSender } from '@ingest/client'
import { createIngest, openMemoryStore } from '@ingest/core'
import { exportFiles } from '@ingest/export'
import { openLmdbStore, verifyLmdbStore } from '@ingest/lmdb'
import t, { type Test } from 'tap'
import { manifestOf } from '../src/power-loss/workload-content.js'

// What docs/reliability.md promises for files that are torn, empty, full of zeros or missing.

const events = Array.from({ length: 20 }, (_, n) => ({ projectId: 'p', eventId: `e-${n}`, pad: 'x'.repeat(200) }))

const damages: Record<string, (path: string) => void> = {
  missing: (path) => rmSync(path, { force: true }),
  empty: (path) => writeFileSync(path, ''),
  zeros: (path) => writeFileSync(path, Buffer.alloc(statSync(path).size)),
  torn: (path) => writeFileSync(path, readFileSync(path).subarray(0, Math.floor(statSync(path).size / 2))),
}

/** Damages some files of a copy of a directory in each way, and calls `check` with it. */
async function damage(
  t: Test,
  [original, ...names]: [directory: string, ...names: string[]],
  check: (directory: string, way: string) => Promise<void>,
  ways = Object.keys(damages),
) {
  for (const way of ways) {
    const directory = join(t.testdirName, `${names.join().replaceAll('/', '-')}-${way}`)
    cpSync(original, directory, { recursive: true })
    for (const name of names) damages[way]?.(join(directory, name))
    for (const name of readdirSync(directory, { recursive: true })) utimesSync(join(directory, `${name}`), 0, 0)
    await check(directory, way)
  }
}

async function createStore(directory: string) {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  await ingest.project('p').submitBatch({ events })
  const { manifest, chunks } = manifestOf({ seed: 1, size: 100_000 })
  await ingest.project('p').publishMap({ placeId: 'place', buildId: 'build', manifest })
  await ingest.project('p').putChunks(chunks)
  await ingest.close()
}

/** All events are there, and the store accepts a retry and a new event. */
async function checkWhole(t: Test, directory: string, what: string) {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const project = ingest.project('p')
  const batch = { events: [...events, { projectId: 'p', eventId: 'new' }] }
  t.match(await project.submitBatch(batch), { accepted: 1, duplicates: events.length }, what)
  t.ok(await project.getMapContent({ placeId: 'place', buildId: 'build' }), what)
  await ingest.close()
  t.strictSame((await verifyLmdbStore(directory)).problems, [], what)
}

t.test('a store recovers from damaged files, or says how to', async (t) => {
  const original = join(t.testdir(), 'store')
  await createStore(original)

  for (const name of ['events', 'chunks']) {
    await damage(t, [original, `${name}/data.mdb`], async (directory, way) => {
      const path = join(directory, name, 'data.mdb')
      const before = existsSync(path) && readFileSync(path)
      await t.rejects(openLmdbStore(directory), { code: 'store-incompatible' }, `${path}: ${way} is refused`)
      t.strictSame(existsSync(path) && readFileSync(path), before, 'and not changed')
    })
  }

  const locks = ['events', 'chunks', 'ids'].flatMap((name) => [`${name}/lock.mdb`, `${name}/gate/lock.mdb`])
  const gates = ['events', 'chunks', 'ids'].map((name) => `${name}/gate/data.mdb`)
  for (const names of [['ids/data.mdb'], gates, locks]) {
    await damage(t, [original, ...names], (directory, way) => checkWhole(t, directory, `${names[0]}: ${way}`))
  }

  await damage(
    t,
    [original, 'ids/damaged'],
    async (directory) => {
      await checkWhole(t, directory, 'an empty mark')
      t.notOk(existsSync(join(directory, 'ids/damaged')), 'the index is built again')
    },
    ['empty'],
  )

  mkdirSync(join(original, 'restoring'))
  await t.rejects(openLmdbStore(original), { code: 'store-incompatible', message: /unfinished restore/ })
})

t.test('a spool sends what damaged files still hold', async (t) => {
  const original = join(t.testdir(), 'spool')
  const client = createClient({ url: 'http://127.0.0.1:9', projectId: 'p', key: 'none' })
  const first = createSender(client, { spool: original })
  for (const event of events) first.send(event)
  await first.close({ deadlineMs: 0 })
  await client.close()
  const segment = '0000000000000001.spool'
  writeFileSync(join(original, 'settled'), 'x'.repeat(90))
  writeFileSync(join(original, 'lock'), '1 1 @another-boot\n')

  async function sendRest(directory: string) {
    const receiver = createIngest({ store: openMemoryStore() }).project('p')
    const sender = createSender(receiver, { spool: directory })
    await sender.flush()
    await sender.close()
    let sent = 0
    for await (const _ of receiver.readEvents()) sent++
    return sent
  }

  await damage(t, [original, segment], async (directory, way) => {
    t.equal(await sendRest(directory), way === 'torn' ? 9 : 0, way)
    t.equal(existsSync(join(directory, `${segment}.damaged`)), way === 'zeros', `${way}: damage is kept`)
  })
  for (const name of ['settled', 'lock']) {
    await damage(t, [original, name], async (directory, way) => {
      t.equal(await sendRest(directory), events.length, `${name}: ${way}`)
    })
  }
})

t.test('an export survives damaged files, or refuses to go on', async (t) => {
  const original = join(t.testdir(), 'export')
  const ingest = createIngest({ store: openMemoryStore() })
  const project = ingest.project('p')
  await project.submitBatch({ events })
  await exportFiles(project, { directory: original, fileBytesMax: 2000 })
  const files = readdirSync(original).filter((name) => name.endsWith('.ndjson'))
  const cursorFile = '.ingest-export.json'

  await damage(t, [original, cursorFile], async (directory, way) => {
    await t.rejects(exportFiles(project, { directory }), { code: 'invalid-argument' }, `${way} is refused`)
  })

  await project.submitBatch({ events: [{ projectId: 'p', eventId: 'new' }] })
  for (const name of [`${cursorFile}.part`, '.ingest-export.lock', `${cursorFile}.lock`]) {
    writeFileSync(join(original, name), 'torn')
    await damage(t, [original, name], async (directory, way) => {
      t.equal((await exportFiles(project, { directory })).files.length, 1, `${name}: ${way}`)
      t.equal(readdirSync(directory).length, files.length + 2, 'nothing else is left')
    })
    rmSync(join(original, name))
  }
})
