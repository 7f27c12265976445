import { answerCalls } from '@ingest/bench/answer-calls'
import { ownBytes } from '@ingest/bench/process-memory'
import { open } from 'lmdb'
import { createGroups } from './ids-groups.js'

// A log of batches in LMDB with one B-tree of fingerprint → position beside it, in the same transactions: each id is
// looked up, and put when it is new. `sorted` puts those of a commit in order; `bulk` keeps the newest in memory
// instead, and puts 250,000 at once, in order.
const bulkEntries = 250_000
/** @type {import('lmdb').RootDatabase<Buffer, Buffer>} */
let environment
/** @type {import('lmdb').Database<Buffer, Buffer>} */
let log
/** @type {import('lmdb').Database<Buffer, Buffer>} */
let ids
/** @type {ReturnType<typeof createGroups>} */
let nextGroup
/** @type {'unsorted' | 'sorted' | 'bulk'} */
let mode = 'unsorted'
/** What waits to be put, by key. @type {Map<string, { key: Buffer, position: Buffer }>} */
const recent = new Map()

answerCalls({
  start(options) {
    mode = options.mode
    nextGroup = createGroups(options.projectId)
    const binary = /** @type {const} */ ({ encoding: 'binary', keyEncoding: 'binary' })
    environment = open({
      path: options.directory,
      noSubdir: false,
      maxDbs: 4,
      mapSize: 2 ** 40,
      overlappingSync: false,
      eventTurnBatching: false,
      cache: false,
      ...binary,
    })
    log = environment.openDB('log', binary)
    ids = environment.openDB('ids', binary)
  },

  async append({ events }) {
    let committed = Promise.resolve()
    for (let done = 0; done < events; ) {
      // made while the last commit is being synced
      const group = nextGroup()
      done += group.entries.length
      await committed
      committed = environment.childTransaction(() => appendGroup(group))
    }
    await committed
    return events
  },

  memory() {
    globalThis.gc?.()
    return ownBytes('self')
  },
  stop: () => environment?.close(),
})

/** @param {ReturnType<typeof nextGroup>} group */
function appendGroup({ bodies, entries }) {
  if (mode !== 'unsorted') entries.sort((x, y) => Buffer.compare(x.key, y.key))
  for (const entry of entries) {
    if (recent.has(entry.key.toString('latin1', 0, 8)) || ids.getBinaryFast(entry.key)) {
      throw new Error('a new id was taken for a duplicate')
    }
    if (mode === 'bulk') recent.set(entry.key.toString('latin1', 0, 8), entry)
    else ids.put(entry.key, entry.position)
  }
  for (const { sequence, body } of bodies) log.put(sequenceKey(sequence), body)
  if (recent.size < bulkEntries) return
  const sorted = [...recent.values()].sort((x, y) => Buffer.compare(x.key, y.key))
  for (const { key, position } of sorted) ids.put(key, position)
  recent.clear()
}

/** @param {number} sequence */
function sequenceKey(sequence) {
  const key = Buffer.alloc(8)
  key.writeUInt32BE(sequence, 4)
  return key
}
