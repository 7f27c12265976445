import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { IngestError } from '@ingest/core'
import { endedFromOutside, forkReader, sendTo, throwUnlessAborted } from '../backup/run-job.ts'
import { readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { deserializeError, type SerializedError } from '../threads/error-transfer.ts'
import { distance, findIntact, firstGap } from './find-intact.ts'

/** A request for the next rows of a table, from `start` on, in the order of their keys. */
export interface Request extends Place {
  directory: string
  start: Buffer
  limit: number
  /** Reads backwards from the end of the table, its keys as bytes. */
  reverse?: true
}

export interface Place {
  /** The name of the environment. */
  name: 'events' | 'chunks'
  table: TableName
  /** Whether the keys are consecutive numbers, each of which is looked up by itself. */
  isNumbered?: boolean
}

export interface Reply {
  /** The rows before the first one that cannot be read. */
  rows: Row[]
  /** The number of rows of the table; undefined if there is no such table or file. */
  count?: number
  /** The reason why the environment or its list of tables cannot be read. */
  error?: SerializedError
}

export interface Row {
  key: Buffer
  value: Buffer
}

/** Reads the intact rows of a damaged store in a separate process, because some damage makes LMDB crash. */
export type DamagedStore = ReturnType<typeof openDamagedStore>

const module = fileURLToPath(new URL('./read-worker.js', import.meta.url))
/** Maximum rows of one request. After a crash, this number of rows is read one by one. */
const rowsAtOnce = 64

export function openDamagedStore(directory: string, signal?: AbortSignal) {
  let child: ChildProcess | undefined
  /** The number of rows still to be read one by one. */
  let singles = 0
  const damaged = new Set<TableName>()

  /** Resolves with undefined after a crash. */
  async function ask(request: Omit<Request, 'directory'>): Promise<Reply | undefined> {
    signal?.throwIfAborted()
    const isRunning = child && child.exitCode === null && child.signalCode === null
    const worker = child && isRunning ? child : forkReader(module)
    child = worker
    try {
      return await new Promise((resolve, reject) => {
        worker.once('message', resolve)
        worker.once('error', reject)
        worker.once('exit', (_code, name) => {
          const error = endedFromOutside(directory, name)
          if (error) reject(error)
          else resolve(undefined)
        })
        sendTo(worker, { directory, ...request })
      })
    } catch (error) {
      return await throwUnlessAborted(error, signal)
    } finally {
      for (const name of ['message', 'error', 'exit']) worker.removeAllListeners(name)
      worker.on('error', () => {})
    }
  }

  /** The rows from `start` on, up to one that cannot be read. */
  async function next(place: Place, start: Buffer): Promise<Partial<Reply>> {
    for (;;) {
      const limit = singles > 0 ? 1 : rowsAtOnce
      const reply = await ask({ ...place, start, limit })
      if (reply || singles > 0) {
        singles = Math.max(0, singles - 1)
        return reply ?? {}
      }
      singles = rowsAtOnce
    }
  }

  /** Searches for the next readable key after `unreadable`. Resolves with undefined if no key below `end` is readable. */
  function findNext(place: Place, unreadable: Buffer, gap: bigint, end?: Buffer): Promise<Buffer | undefined> {
    return findIntact({
      unreadable,
      gap,
      end,
      isNumbered: place.isNumbered === true,
      async isIntact(start) {
        const reply = await ask({ ...place, start, limit: 1 })
        return reply !== undefined && reply.rows.length > 0
      },
      async newestKey() {
        const reply = await ask({ ...place, isNumbered: false, start: nothing, limit: 1, reverse: true })
        return reply?.rows[0]?.key ?? nothing
      },
    })
  }

  return {
    /** The tables that are damaged or missing. */
    damaged,

    /**
     * @throws {IngestError} `store-damaged` if LMDB cannot read the list of tables or the log is not in it; errors of
     *   opening
     */
    async open(): Promise<void> {
      const reply = await ask({ name: 'events', table: 'log', isNumbered: true, start: nothing, limit: 0 })
      if (reply?.count !== undefined) return
      if (reply?.error && reply.error.code !== 'store-damaged') throw deserializeError(reply.error)
      const path = join(directory, 'events')
      throw new IngestError('store-damaged', `The list of the tables of ${path} cannot be read: restore a backup.`)
    },

    /** The readable rows of a table of `events`, in the order of their keys; numbered ones from 1 to before `end`. */
    async *rows(table: TableName, end?: number): AsyncGenerator<Row> {
      const place: Place = { name: 'events', table, isNumbered: end !== undefined }
      let [read, count] = [0, -1]
      let start: Buffer | undefined = end === undefined ? nothing : sequenceKey(1)
      let last = start
      let gap = end === undefined ? firstGap : 1n
      while (start) {
        const reply = await next(place, start)
        count = reply.count ?? count
        const { rows = [] } = reply
        yield* rows
        read += rows.length
        const key = rows.at(-1)?.key
        if (key) {
          if (!place.isNumbered) gap = distance(rows.at(-2)?.key ?? last, key)
          last = key
          start = behind(key, place)
        } else if (read === count) return
        else start = await findNext(place, start, gap, end === undefined ? undefined : sequenceKey(end))
      }
      damaged.add(table)
    },

    /** The value of a key; undefined if it is missing or cannot be read. */
    async get(place: Place, key: Buffer): Promise<Buffer | undefined> {
      return (await ask({ ...place, isNumbered: true, start: key, limit: 1 }))?.rows[0]?.value
    },

    close: () => void child?.kill('SIGKILL'),
  }
}

const nothing = Buffer.alloc(0)

/** The smallest key that is greater than this one. */
function behind(key: Buffer, { isNumbered }: Place): Buffer {
  return isNumbered ? sequenceKey(readSequence(key) + 1) : Buffer.concat([key, Buffer.of(0)])
}
