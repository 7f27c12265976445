import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSender } from '@ingest/client'
import { createIngest, openMemoryStore } from '@ingest/core'
import { exportFiles } from '@ingest/export'
import { restoreLmdbStore } from '@ingest/lmdb'
import { openLmdbStoreWith, verifyDirectory } from '@ingest/lmdb/internal'
import { bytesOfMap, bytesOfOutput, entriesPerFlush, eventOf } from './workload-content.js'

// Opens disk images one after another and reports the problems of each, in a process of its own because LMDB crashes on
// some files.

/**
 * @typedef {import('./workload-content.js').Promised} Promised
 * @typedef {Promised & { isKept: boolean }} Expected `isKept`: it was acknowledged; otherwise it may or may not be there
 * @typedef {import('@ingest/core').EmbeddedIngest<any>} Embedded
 * @typedef {{ directory: string, prefixes: string[], expected: Expected[] }} Image
 * @typedef {{ problem?: string, acknowledged: number, stored: number }} Checked `acknowledged` and `stored` are numbers of events
 */

process.on('message', (/** @type {Image} */ image) => {
  checkImage(image)
    .catch((error) => ({ problem: `${error.code ?? ''} ${error.stack ?? error}`, acknowledged: 0, stored: 0 }))
    .then((/** @type {Checked} */ checked) => process.send?.(checked))
})

/** @param {Image} image @returns {Promise<Checked>} */
async function checkImage({ directory, prefixes, expected }) {
  const pathOf = (/** @type {string} */ name) => (prefixes.includes(name) ? join(directory, name) : undefined)
  const output = pathOf('output')
  if (output) checkOutput(`${output}.ndjson`, expected)
  // the last copy first: a restore reads the backup, and a check adds events to a copy
  for (const [index, promised] of [...expected.entries()].reverse()) {
    const copy = promised.kind === 'copy' && pathOf(promised.to)
    if (!copy) continue
    // a restored store has what its backup had
    const source = expected.findIndex((each) => each.kind === 'copy' && each.to === promised.from)
    const before = expected.slice(0, source < 0 ? index : source)
    await checkCopy(copy, promised, { directory, before, all: expected })
  }
  const store = pathOf('store')
  if (!store) return { acknowledged: 0, stored: 0 }
  return checkStore(store, { expected, spool: pathOf('spool'), files: pathOf('export') })
}

/** @param {boolean} holds @param {string} what */
function check(holds, what) {
  if (!holds) throw new Error(what)
}

/** @param {Expected[]} expected @param {string} path */
function checkOutput(path, expected) {
  const versions = expected.flatMap((each) => (each.kind === 'output' ? [each] : []))
  const isThere = existsSync(path)
  const found = isThere ? versions.findIndex(({ version }) => readFileSync(path).equals(bytesOfOutput(version))) : -1
  check(!isThere || found >= 0, 'an output is whole')
  check(found >= versions.findLastIndex(({ isKept }) => isKept), 'an output is there once it was written')
}

/**
 * A copy gets its name only when it is complete. An unfinished restore cannot be opened, but can be repeated.
 *
 * @param {string} path
 * @param {Expected & { kind: 'copy' }} copy
 * @param {{ directory: string, before: Expected[], all: Expected[] }} options `before` holds what the copy must have
 */
async function checkCopy(path, { isKept, from, to }, { directory, before, all }) {
  if (!isKept && from !== undefined && existsSync(path)) {
    const error = await openStore(path, false).then(
      (store) => store.close(),
      (error) => error,
    )
    check(!error || error.code === 'store-missing' || /unfinished restore/.test(error.message), `${error}`)
    if (error) await restoreLmdbStore(join(directory, from), path)
  }
  if (!existsSync(path)) return check(!isKept, `${to} is there once it was reported`)
  const begun = all.map((each, index) => ({ ...each, isKept: index < before.length && each.isKept }))
  await checkStore(path, { expected: begun, isCopy: true })
}

/** @param {string} path @param {boolean} create */
const openStore = (path, create) => openLmdbStoreWith(path, { create }, { entriesPerFlush })

/**
 * @param {string} path
 * @param {{ expected: Expected[], isCopy?: boolean, spool?: string | undefined, files?: string | undefined }} options
 * @returns {Promise<Checked>}
 */
async function checkStore(path, { expected, isCopy = false, spool, files }) {
  const ingest = createIngest({ store: await openStore(path, !isCopy) })
  const checked = { acknowledged: 0, stored: 0 }
  try {
    for (const projectId of ['p', 'aged', 'spooled']) {
      const { acknowledged, stored } = await checkEvents(ingest.project(projectId), expected)
      checked.acknowledged += acknowledged
      checked.stored += stored
    }
    await checkMaps(ingest.project('p'), expected)
    if (files) await checkFiles(ingest.project('p'), files)
    if (spool) await checkSpool(ingest.project('spooled'), spool, expected)
    if (expected.some(({ kind, isKept }) => kind === 'key' && isKept)) {
      check((await ingest.keys.list('p')).length === 1, 'a key is there once it was created')
    }
    await checkRetries(ingest, expected)
  } finally {
    await ingest.close()
  }
  const { problems } = await verifyDirectory(path, () => {})
  check(problems.length === 0, `verify: ${JSON.stringify(problems)}`)
  return checked
}

/** @param {import('@ingest/core').Ingest<any>} project */
async function readAll(project) {
  /** @type {Map<string, string>} */
  const events = new Map()
  for await (const { bytes } of project.readEvents()) {
    const text = Buffer.from(bytes).toString()
    const { eventId } = JSON.parse(text)
    check(!events.has(eventId), `${eventId} is stored once`)
    events.set(eventId, text)
  }
  return events
}

/** Acknowledged ⊆ stored ⊆ sent, each event with its bytes. @param {import('@ingest/core').Ingest<any>} project @param {Expected[]} expected */
async function checkEvents(project, expected) {
  const { projectId } = project
  const stored = await readAll(project)
  /** @type {Set<string>} */
  const sent = new Set()
  const erasures = expected.flatMap((each) => (each.kind === 'erase' && each.projectId === projectId ? [each] : []))
  let acknowledged = 0
  for (const [index, batch] of expected.entries()) {
    if ((batch.kind !== 'events' && batch.kind !== 'spool') || batch.projectId !== projectId) continue
    const isOf = (/** @type {Expected} */ each) =>
      erasures.find(
        (erasure) => expected.indexOf(erasure) > index && [undefined, batchPlayer(each)].includes(erasure.player),
      )
    const erasure = isOf(batch)
    for (const id of batch.ids) {
      const text = stored.get(id)
      sent.add(id)
      check(text === undefined || text === textOf(batch, id), `${id} has the bytes that were sent: ${text}`)
      if (erasure) check(text === undefined || !erasure.isKept, `${id} is erased`)
      else if (batch.isKept && batch.kind === 'events') {
        acknowledged++
        check(text !== undefined, `${id} was acknowledged and is lost`)
      }
    }
  }
  for (const id of stored.keys()) check(sent.has(id), `${id} was sent`)
  return { acknowledged, stored: stored.size }
}

/** @param {Expected} batch */
const batchPlayer = (batch) => (batch.kind === 'events' ? batch.player : undefined)

/** @param {Expected & { kind: 'events' | 'spool' }} batch @param {string} id */
function textOf(batch, id) {
  const { projectId } = batch
  const event =
    batch.kind === 'events'
      ? { projectId, build: batch.build, player: batch.player, id }
      : { projectId, build: 'spooled', player: 0, id, padBytes: 4000 }
  return JSON.stringify(eventOf(event))
}

/** Acknowledged events are duplicates, erased ones too; events that were not stored are accepted. @param {Embedded} ingest @param {Expected[]} expected */
async function checkRetries(ingest, expected) {
  const batches = expected.flatMap((each) => (each.kind === 'events' ? [each] : []))
  await Promise.all(
    batches.map(async ({ projectId, build, player, ids, isKept }) => {
      const events = ids.map((id) => eventOf({ projectId, build, player, id }))
      const { accepted, duplicates } = await ingest.project(projectId).submitBatch({ events })
      check(
        accepted + duplicates === ids.length && (accepted === 0 || duplicates === 0),
        'a batch is stored as a whole',
      )
      check(!isKept || accepted === 0, `a retry of ${ids[0]} is accepted twice`)
    }),
  )
  const added = eventOf({ projectId: 'p', build: 'new', player: 9, id: 'new' })
  check((await ingest.project('p').submitBatch({ events: [added] })).accepted === 1, 'a new event is accepted')
}

/** @param {import('@ingest/core').Ingest<any>} project @param {Expected[]} expected */
async function checkMaps(project, expected) {
  const maps = expected.flatMap((each) => (each.kind === 'map' ? [each] : []))
  const frozen = new Set(expected.flatMap((each) => (each.kind === 'events' && each.isKept ? [each.build] : [])))
  for (const build of new Set(maps.map((map) => map.build))) {
    const ofBuild = maps.filter((map) => map.build === build)
    const content = await project.getMapContent({ placeId: 'place', buildId: build })
    const found = ofBuild.findIndex(({ digest }) => digest === content?.digest)
    const last = ofBuild.findLastIndex(({ isKept }) => isKept)
    check(found >= last, `the map of ${build} is ${content?.digest}, and version ${last} was published`)
    const map = ofBuild[found]
    if (!content || !map) continue
    const parts = []
    for await (const part of content.bytes()) parts.push(part)
    check(Buffer.concat(parts).equals(bytesOfMap(map)), `the map of ${build} has its bytes`)
    check(content.frozen || !frozen.has(build), `the map of ${build} is frozen`)
  }
}

/** The next run of the export completes the files; each event is in one of them. @param {import('@ingest/core').Ingest<any>} project @param {string} directory */
async function checkFiles(project, directory) {
  const before = existsSync(directory) ? readFiles(directory) : new Map()
  await exportFiles(project, { directory, partition: 'hive', fileBytesMax: 150_000 })
  const after = readFiles(directory)
  for (const [name, text] of before) check(after.get(name) === text, `${name} has not changed`)
  const exported = [...after.values()].flatMap((text) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).event),
  )
  const stored = await readAll(project)
  check(exported.length === stored.size, `${exported.length} events are in files, and ${stored.size} are stored`)
  for (const event of exported)
    check(stored.get(event.eventId) === JSON.stringify(event), `${event.eventId} is exported`)
}

/** @param {string} directory @returns {Map<string, string>} */
function readFiles(directory) {
  const names = readdirSync(directory, { recursive: true }).map(String)
  const files = names.filter((name) => name.endsWith('.ndjson'))
  return new Map(files.map((name) => [name, readFileSync(join(directory, name), 'utf8')]))
}

/** The next sender sends what a closed one left in the spool. @param {import('@ingest/core').Ingest<any>} project @param {string} spool @param {Expected[]} expected */
async function checkSpool(project, spool, expected) {
  const stored = await readAll(project)
  const receiver = createIngest({ store: openMemoryStore() }).project(project.projectId)
  const sender = createSender(receiver, { spool })
  await sender.flush()
  await sender.close()
  const sent = await readAll(receiver)
  for (const promised of expected) {
    if (promised.kind !== 'spool') continue
    for (const id of promised.ids) {
      const text = sent.get(id)
      check(text === undefined || text === textOf(promised, id), `${id} has the bytes that were spooled`)
      check(text !== undefined || stored.has(id) || !promised.isKept, `${id} was in the spool and is lost`)
    }
  }
  for (const id of sent.keys()) check(/^s-\d+$/.test(id), `${id} was sent`)
}
