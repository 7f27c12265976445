import { join } from 'node:path'
import { inspectDataFile } from '../environment/data-file.ts'
import { type Environment, openEnvironment, type Table } from '../environment/environment.ts'
import { listTables } from '../environment/root.ts'
import { readSequence, sequenceKey } from '../environment/row-keys.ts'
import { asDamage, serializeError, toRequestError } from '../threads/error-transfer.ts'
import type { Reply, Request, Row } from './damaged-store.ts'

// Reads rows of a damaged store on behalf of another process, which starts a new one when LMDB crashes this one.

/** The most bytes of one reply, not counting its last row. */
const replyBytesMax = 2 ** 20

// the parent process decides what a signal of the terminal means
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
const environments = new Map<string, Promise<Environment>>()
process.on('message', async (request: Request) => process.send?.(await answer(request)))

async function answer({ directory, name, table, ...range }: Request): Promise<Reply> {
  const path = join(directory, name)
  // opening it would create it
  if (inspectDataFile(join(path, 'data.mdb')) === 'missing') return { rows: [] }
  const opening = environments.get(path) ?? openEnvironment(path, { readOnly: true })
  environments.set(path, opening)
  try {
    const { root, table: open } = await opening
    // LMDB refuses further reads in a transaction that has found damage
    root.resetReadTxn()
    if (!listTables(root).includes(table)) return { rows: [] }
    const { entryCount } = open(table).getStats() as { entryCount: number }
    return { rows: read(open(table), range), count: entryCount }
  } catch (error) {
    return { rows: [], error: serializeError(toRequestError(asDamage(error))) }
  }
}

/** The rows before the first one that cannot be read. */
function read(table: Table, request: Omit<Request, 'directory' | 'name' | 'table'>): Row[] {
  const { start, limit, isNumbered, reverse } = request
  const rows: Row[] = []
  const source = isNumbered
    ? lookUp(table, start)
    : table.getRange(reverse ? { reverse, limit } : { start, limit })[Symbol.iterator]()
  try {
    for (let bytes = 0; rows.length < limit && bytes <= replyBytesMax; ) {
      const { value: row, done } = source.next()
      // LMDB follows a damaged page to rows of other pages
      if (done || Buffer.compare(rows.at(-1)?.key ?? start, row.key) >= (rows.length > 0 ? 0 : 1)) break
      rows.push(row)
      bytes += row.key.length + row.value.length
    }
  } catch {
    // damage
  } finally {
    // otherwise the next read would use the transaction of the error
    source.return?.(undefined)
  }
  return rows
}

/** Looks up consecutive numbers one by one: a cursor would read a damaged page, or rows of another one in its place. */
function* lookUp(table: Table, start: Buffer): Generator<Row> {
  for (let key = start; ; key = sequenceKey(readSequence(key) + 1)) {
    const value = table.getBinary(key)
    if (!value) return
    yield { key, value }
  }
}
