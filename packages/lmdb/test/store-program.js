// A process around one store, driven by messages, which the tests kill, stop and inject faults into. It is plain JavaScript
// on the built package, because it is started many times and a loader for TypeScript takes a second.
// @ts-check
import { isDeepStrictEqual } from 'node:util'
import { createIngest } from '@ingest/core'
import { openLmdbStoreWith } from '@ingest/lmdb/internal'
import { open } from 'lmdb'

/** @import { Question } from './store-process.ts' */

const [directory = '', commitTimeoutMs = '30000', entriesPerFlush = ''] = process.argv.slice(2)

/** @param {object} message */
const say = (message) => process.send?.(message)

process.on('unhandledRejection', (error) => say({ unhandled: String(error) }))

const store = await openLmdbStoreWith(
  directory,
  { commitTimeoutMs: Number(commitTimeoutMs), onFatal: (error) => say({ fatal: error.code }) },
  entriesPerFlush ? { entriesPerFlush: Number(entriesPerFlush) } : {},
).catch((error) => {
  say({ refused: error.code })
  process.exit(3)
})
/** @type {import('@ingest/core').EmbeddedIngest | undefined} */
let ingest

/**
 * Created at first use: an Ingest sweeps after a minute, which would delete the rows of checks, whose times are old. Its
 * clock stands still, because activity is written when a minute ends, and tests inject faults into the n-th commit.
 */
function openIngest() {
  const openedAt = Date.now()
  ingest ??= createIngest({ store, now: () => openedAt })
  return ingest
}

say({ ready: true })

let isClosed = false
process.on('disconnect', () => isClosed || process.exit())
process.on('message', async (/** @type {Question} */ question) => {
  try {
    say({ id: question.id, answer: await answer(question) })
  } catch (error) {
    say({ id: question.id, code: /** @type {{ code?: string }} */ (error).code ?? String(error) })
  }
})

/**
 * @param {Question} question
 * @returns {Promise<unknown>}
 */
async function answer({ id, ask, eventIds = [], method, args = [] }) {
  switch (ask) {
    case 'submit':
      return openIngest()
        .project('p')
        .submitBatch({
          events: eventIds.map((eventId) => ({ projectId: 'p', eventId, buildId: `build-${eventId}` })),
        })
    case 'known':
      return store.known('p', eventIds)
    case 'call':
      return call(/** @type {keyof import('@ingest/core').Maps} */ (method), args)
    case 'operate':
      return operate(method ?? '', args)
    case 'close':
      isClosed = true
      return openIngest().close()
    case 'exit':
      return process.exit(0)
    case 'check':
      return store.check()
    case 'count':
      return store.updateEntry('project', 'counted', (project) => {
        const createdAt = (project?.createdAt ?? 0) + 1
        return { entry: { projectId: 'counted', createdAt, keys: [] }, result: createdAt }
      })
    case 'revoke':
      for (const { keyId } of await openIngest().keys.list('p')) await openIngest().keys.revoke('p', keyId)
      return
    case 'look': {
      // takes a snapshot of the log and never releases it
      const root = open({ path: `${directory}/events`, noSubdir: false, overlappingSync: false, readOnly: true })
      root.getStats()
      say({ id, answer: 'looking' })
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
      return
    }
    case 'hold':
    case 'hold-ids':
      // stays inside the gate until the process ends
      return open({
        path: `${directory}/${ask === 'hold' ? 'events' : 'ids'}/gate`,
        noSubdir: false,
        overlappingSync: false,
      }).transactionSync(() => {
        say({ id, answer: 'held' })
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
      })
  }
}

/**
 * @param {keyof import('@ingest/core').Maps} method
 * @param {unknown[]} args
 */
async function call(method, args) {
  /** @type {(...args: any[]) => Promise<any>} */
  const run = openIngest().project('p')[method]
  const result = await run(...args)
  if (typeof result?.bytes !== 'function') return result
  const parts = []
  for await (const part of result.bytes()) parts.push(part)
  return Buffer.concat(parts)
}

/**
 * Runs an operation of the store. Functions cannot be sent: `compareMap`, `compareProject` and `compareConsumers` write if
 * the state on which a decision was made is still current, and otherwise return the current state.
 *
 * @param {string} method
 * @param {any[]} args
 */
async function operate(method, args) {
  switch (method) {
    case 'read': {
      const events = []
      for await (const page of store.read(args[0], args[1])) events.push(...page)
      return events
    }
    case 'activity': {
      const rows = []
      for await (const row of store.activity(args[0], args[1])) rows.push(row)
      return rows
    }
    case 'compareMap': {
      const [key, chunks, expected, contents] = args
      return store.updateMap(key, chunks, (slot, present) =>
        isDeepStrictEqual({ slot, present }, expected)
          ? { ...(contents && { contents }), result: undefined }
          : { result: { slot, present } },
      )
    }
    case 'compareEntry': {
      const [kind, projectId, expected, decision] = args
      return store.updateEntry(kind, projectId, (entry) =>
        isDeepStrictEqual({ entry }, expected) ? { ...decision, result: undefined } : { result: { entry } },
      )
    }
  }
  const operations = /** @type {Record<string, (...args: any[]) => Promise<unknown>>} */ (
    /** @type {unknown} */ (store)
  )
  return operations[method]?.(...args)
}
