import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { IngestError } from '@ingest/core'
import { sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { deserializeError, type SerializedError } from '../threads/error-transfer.ts'

/**
 * A request for rows of a table, in the order of their keys: from `start` on; with `reverse`, from the end of the
 * table; without a `limit`, the row of `start` only.
 */
export interface Request {
  directory: string
  /** The name of the environment. */
  name: 'events' | 'chunks'
  /** Without a table, the request only opens the environment. */
  table?: TableName
  start: Buffer
  limit?: number
  reverse?: true
}

export interface Reply {
  rows: Row[]
  /**
   * Whether more rows may follow; `damage`: the next rows cannot be read; `missing`: there is no such table or file.
   */
  end: 'more' | 'end' | 'damage' | 'missing'
  /** The reason why the environment cannot be opened. */
  error?: SerializedError
}

export interface Row {
  key: Buffer
  value: Buffer
}

/** A reply, and whether the process crashed. */
type Answer = Reply & { isCrash?: true }

type Place = Required<Pick<Request, 'name' | 'table'>>

/** Reads the intact rows of a damaged store in a separate process, because some damage makes LMDB crash. */
export type DamagedStore = ReturnType<typeof openDamagedStore>

const module = fileURLToPath(new URL('./read-worker.js', import.meta.url))
/** Maximum rows of one request. After a crash, these rows are read one by one, up to the damage. */
const rowsAtOnce = 64
const keyBytesMin = 8

export function openDamagedStore(directory: string, signal?: AbortSignal) {
  let child: ChildProcess | undefined
  const damaged = new Set<TableName>()

  function start(): ChildProcess {
    const { SystemRoot } = process.env
    return fork(module, {
      execArgv: [],
      env: SystemRoot ? { SystemRoot } : {},
      serialization: 'advanced',
      // LMDB writes plain text about damage to standard error
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
  }

  /** A crash counts as damage at the place of the request. */
  async function ask(request: Omit<Request, 'directory'>): Promise<Answer> {
    signal?.throwIfAborted()
    const isRunning = child && child.exitCode === null && child.signalCode === null
    const worker = child && isRunning ? child : start()
    child = worker
    try {
      return await new Promise((resolve, reject) => {
        const noteCrash = () => {
          child = undefined
          resolve({ rows: [], end: 'damage', isCrash: true })
        }
        worker.once('message', resolve)
        worker.once('error', reject)
        worker.once('exit', noteCrash)
        worker.send({ directory, ...request }, (error) => error && noteCrash())
      })
    } finally {
      for (const name of ['message', 'error', 'exit']) worker.removeAllListeners(name)
      worker.on('error', () => {})
    }
  }

  /** Returns a function that reads rows of a table. A key greater than the last one of the table is damage. */
  async function readerOf(place: Place) {
    const newest = (await ask({ ...place, start: nothing, limit: 1, reverse: true })).rows[0]?.key
    return async (start: Buffer, limit: number): Promise<Answer> => {
      const { rows, end, isCrash } = await ask({ ...place, start, limit })
      const ahead = newest ? rows.findIndex(({ key }) => Buffer.compare(key, newest) > 0) : -1
      if (ahead !== -1) return { rows: rows.slice(0, ahead), end: 'damage' }
      // LMDB treats a page of zeros as the end of the table
      const last = rows.at(-1)?.key ?? start
      const isEnd = end === 'end' && (!newest || Buffer.compare(last, newest) >= 0)
      return { rows, end: end === 'end' && !isEnd ? 'damage' : end, ...(isCrash && { isCrash }) }
    }
  }

  /** The next number after `unreadable` whose row can be read; greater than `last` if there is none. */
  async function findNumber(place: Place, unreadable: number, last: number): Promise<number> {
    const isReadable = async (at: number) => (await ask({ ...place, start: sequenceKey(at) })).rows.length > 0
    let low = unreadable
    let high = low + 1
    for (let step = 1; high <= last && !(await isReadable(high)); step *= 2) [low, high] = [high, high + step]
    if (high > last) return high
    damaged.add(place.table)
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (await isReadable(middle)) high = middle
      else low = middle
    }
    return high
  }

  return {
    /** The tables that are damaged or missing. */
    damaged,

    /**
     * @throws {IngestError} `store-damaged` if LMDB cannot read the list of tables or the log is not in it; errors of
     *   opening
     */
    async open(): Promise<void> {
      const name = 'events'
      const { end, error } = await ask({ name, start: nothing })
      if (end !== 'damage' && (await ask({ name, table: 'log', start: nothing, limit: 1 })).end !== 'missing') return
      if (error && error.code !== 'store-damaged') throw deserializeError(error)
      const path = join(directory, name)
      throw new IngestError('store-damaged', `The list of the tables of ${path} cannot be read: restore a backup.`)
    },

    /** The readable rows of a table, in the order of their keys. */
    async *rows(place: Place): AsyncGenerator<Row> {
      const read = await readerOf(place)
      let start: Buffer | undefined = nothing
      let last: Buffer = nothing
      // the distance between two keys
      let gap = 1n
      let singles = 0
      while (start) {
        const { rows, end, isCrash } = await read(start, singles > 0 ? 1 : rowsAtOnce)
        yield* rows
        const key = rows.at(-1)?.key
        if (key) {
          gap = distance(rows.at(-2)?.key ?? last, key)
          last = key
          start = behind(key)
        }
        if (end === 'missing' || end === 'damage') damaged.add(place.table)
        if (end === 'missing' || end === 'end') return
        if (isCrash && singles === 0) {
          singles = rowsAtOnce
          continue
        }
        singles = Math.max(0, singles - 1)
        if (end === 'more') continue
        start = await findIntact(read, last, gap)
        singles = 0
      }
    },

    /**
     * The readable values of a table whose keys are consecutive numbers from 1 to at most `last`. Each number is looked
     * up by itself, as a damaged page may hold the rows of another one.
     */
    async *numbered(place: Place, last: number): AsyncGenerator<{ number: number; value: Buffer }> {
      let singles = 0
      for (let next = 1; next <= last; ) {
        const { rows, isCrash } = await ask({
          ...place,
          start: sequenceKey(next),
          ...(singles === 0 && { limit: rowsAtOnce }),
        })
        singles = Math.max(0, singles - 1)
        const before = next
        for (const { key, value } of rows) {
          if (!key.equals(sequenceKey(next))) break
          yield { number: next++, value }
        }
        if (next > before) continue
        if (!isCrash || singles > 0) next = await findNumber(place, next, last)
        singles = rowsAtOnce
      }
    },

    /** The value of a key; undefined if it is missing or cannot be read. */
    async get(place: Place, key: Buffer): Promise<Buffer | undefined> {
      return (await ask({ ...place, start: key })).rows[0]?.value
    },

    close: () => void child?.kill('SIGKILL'),
  }
}

const nothing = Buffer.alloc(0)

/** The first key after the damage at which rows can be read; undefined if there is none. */
async function findIntact(
  read: (start: Buffer, limit: number) => Promise<Answer>,
  last: Buffer,
  gap: bigint,
): Promise<Buffer | undefined> {
  const width = Math.max(keyBytesMin, last.length)
  const end = 1n << BigInt(width * 8)
  const isIntact = async (at: bigint) => (await read(toKey(at, width), 1)).rows.length > 0
  let low = toNumber(last, width)
  let high = low + 1n
  for (let step = gap; high < end && !(await isIntact(high)); step *= 2n) [low, high] = [high, high + step]
  if (high >= end) return undefined
  while (high - low > 1n && high - low > gap / 64n) {
    const middle = (low + high) / 2n
    if (await isIntact(middle)) high = middle
    else low = middle
  }
  return toKey(high, width)
}

/** The smallest key that is greater than this one. */
function behind(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)])
}

/** A key as a number, padded with zeros at the end. */
function toNumber(key: Buffer, width: number): bigint {
  return BigInt(`0x${key.toString('hex').padEnd(width * 2, '0')}`)
}

function toKey(number: bigint, width: number): Buffer {
  return Buffer.from(number.toString(16).padStart(width * 2, '0'), 'hex')
}

/** The distance between two keys; at least 1. */
function distance(from: Buffer, to: Buffer): bigint {
  const width = Math.max(keyBytesMin, from.length, to.length)
  const between = toNumber(to, width) - toNumber(from, width)
  return between > 0n ? between : 1n
}
