import { createHash } from 'node:crypto'
import { openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createClient, createSender } from '@ingest/client'
import { createIngest } from '@ingest/core'
import { writeFile } from '@ingest/core/internal'
import { exportFiles } from '@ingest/export'
import { backUpLmdbStore, repairLmdbStore, restoreLmdbStore } from '@ingest/lmdb'
import { openLmdbStoreWith } from '@ingest/lmdb/internal'
import { encodeNote } from './read-log.js'
import { bytesOfOutput, entriesPerFlush, eventOf, manifestOf } from './workload-content.js'

// The recorded workload does once everything that creates files. It notes in the log what begins and what is acknowledged.

/** @typedef {import('./workload-content.js').Promised} Promised */

const [root = '', logPath = ''] = process.argv.slice(2)
const log = openSync(logPath, 'a')
const directory = join(root, 'store')
let promises = 0

/** @param {import('./read-log.js').Note} note */
const write = (note) => void writeSync(log, encodeNote(note))

/** Notes a promise before and after `work`. @template T @param {Promised} promised @param {() => Promise<T>} work */
async function noting(promised, work) {
  const number = promises++
  write({ type: 'begin', number, promised })
  const result = await work()
  write({ type: 'end', number, promised })
  return result
}

/** @param {string} name @param {string[]} prefixes of the paths below the root that are checked */
const phase = (name, ...prefixes) => write({ type: 'phase', name, prefixes })

const open = async () =>
  createIngest({ store: await openLmdbStoreWith(directory, { create: true }, { entriesPerFlush }) })

let batches = 0

/** @param {import('@ingest/core').EmbeddedIngest<any>} ingest @param {{ projectId?: string, build?: string, count?: number }} [options] */
function submit(ingest, { projectId = 'p', build = `build-${batches % 7}`, count = 20 } = {}) {
  const player = batches % 5
  const ids = Array.from({ length: count }, (_, index) => `e-${batches}-${index}-${hash(batches * 100 + index)}`)
  batches++
  const events = ids.map((id) => eventOf({ projectId, build, player, id }))
  return noting({ kind: 'events', projectId, build, player, ids }, async () => {
    const { accepted } = await ingest.project(projectId).submitBatch({ events })
    if (accepted !== count) throw new Error(`${accepted} events of ${count} were accepted`)
  })
}

/** Ids must not arrive in the order of the runs of the id index. @param {number} number */
const hash = (number) => createHash('sha256').update(`${number}`).digest('hex').slice(0, 8)

/** @param {import('@ingest/core').EmbeddedIngest<any>} ingest @param {number} count */
async function submitMany(ingest, count) {
  const sender = async () => {
    while (count-- > 0) await submit(ingest)
  }
  await Promise.all([sender(), sender(), sender()])
}

/** Publishes a map of chunks. @param {import('@ingest/core').EmbeddedIngest<any>} ingest @param {{ build: string, seed: number, size: number }} map */
async function publish(ingest, map) {
  const project = ingest.project('p')
  const { manifest, chunks } = manifestOf(map)
  await noting({ kind: 'map', ...map, digest: manifest.digest }, async () => {
    const { missing } = await project.publishMap({ placeId: 'place', buildId: map.build, manifest })
    for (const chunk of chunks) if (missing.includes(chunk.digest)) await project.putChunks([chunk])
    const status = await project.getMap({ placeId: 'place', buildId: map.build })
    if (status?.digest !== manifest.digest || status.state !== 'complete') throw new Error('the map is not complete')
  })
}

phase('create', 'store')
let ingest = await open()
await submit(ingest, { count: 1 })
await noting({ kind: 'key', projectId: 'p' }, () => ingest.keys.create('p'))
phase('append, flush and merge', 'store')
await submitMany(ingest, 100)
phase('reopen', 'store')
await ingest.close()
ingest = await open()
await submitMany(ingest, 3)
phase('rebuild', 'store')
await ingest.close()
// the mark of a process that found damage in the id index, and a gate that was torn before its sync
writeFileSync(join(directory, 'ids', 'damaged'), 'found by a check')
writeFileSync(join(directory, 'events', 'gate', 'data.mdb'), Buffer.alloc(8192))
ingest = await open()
await submitMany(ingest, 3)
phase('maps', 'store')
for (let seed = 1; seed < 4; seed++) await publish(ingest, { build: 'map', seed, size: 100_000 * seed })
await publish(ingest, { build: 'other', seed: 2, size: 200_000 })
await submit(ingest, { build: 'map' })
await submit(ingest, { build: 'late' })
await publish(ingest, { build: 'late', seed: 5, size: 50_000 })
phase('erase', 'store')
for (let i = 0; i < 5; i++) await submit(ingest, { projectId: 'aged' })
await noting({ kind: 'erase', projectId: 'p', player: 3 }, () =>
  ingest.eraseEvents('p', { path: '/playerId', value: 3 }),
)
await noting({ kind: 'erase', projectId: 'aged' }, () => ingest.retainEvents('aged', Date.now() + 1000))
await submitMany(ingest, 5)
phase('backup', 'store', 'backup')
await Promise.all([
  noting({ kind: 'copy', to: 'backup' }, () => backUpLmdbStore(directory, join(root, 'backup'))),
  submitMany(ingest, 10),
])
phase('restore', 'backup', 'restored')
await noting({ kind: 'copy', to: 'restored', from: 'backup' }, () =>
  restoreLmdbStore(join(root, 'backup'), join(root, 'restored')),
)
phase('spool', 'store', 'spool')
await spool()
phase('export', 'store', 'export', 'output')
await exportFiles(ingest.project('p'), {
  directory: join(root, 'export'),
  partition: 'hive',
  fileBytesMax: 150_000,
})
for (const version of [1, 2]) {
  await noting({ kind: 'output', version }, () =>
    writeFile(join(root, 'output.ndjson'), (write) => write(bytesOfOutput(version)).then(() => {})),
  )
}
await ingest.close()
phase('repair', 'store', 'repaired')
await noting({ kind: 'copy', to: 'repaired' }, () => repairLmdbStore(directory, join(root, 'repaired')))
process.exit(0)

/** Leaves unsent events in a spool; a second sender on the spool sends them. */
async function spool() {
  const path = join(root, 'spool')
  const ids = Array.from({ length: 400 }, (_, index) => `s-${index}`)
  const events = ids.map((id) => eventOf({ projectId: 'spooled', build: 'spooled', player: 0, id, padBytes: 4000 }))
  const client = createClient({ url: 'http://127.0.0.1:9', projectId: 'spooled', key: 'ik_none' })
  await noting({ kind: 'spool', projectId: 'spooled', ids }, async () => {
    const sender = createSender(client, { spool: path })
    for (const event of events) sender.send(event)
    await sender.close({ deadlineMs: 0 })
  })
  const sender = createSender(ingest.project('spooled'), { spool: path })
  await sender.flush()
  await sender.close()
  await client.close()
}
