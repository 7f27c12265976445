import { join } from 'node:path'
import { inspectDataFile } from '../environment/data-file.ts'
import { type Environment, openEnvironment, type Table } from '../environment/environment.ts'
import { listTables } from '../environment/root.ts'
import { asDamage, serializeError, toRequestError } from '../threads/error-transfer.ts'
import type { Reply, Request } from './damaged-store.ts'

// Reads rows of a damaged store on behalf of another process, which starts a new one when LMDB crashes this one.

/** The most bytes of one reply, not counting its last row. */
const replyBytesMax = 2 ** 20

// the parent process decides what a signal of the terminal means
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
const environments = new Map<string, Promise<Environment>>()
process.on('message', async (request: Request) => process.send?.(await answer(request)))

async function answer({ directory, name, ...range }: Request): Promise<Reply> {
  const path = join(directory, name)
  if (inspectDataFile(join(path, 'data.mdb')) === 'missing') return { rows: [], end: 'missing' }
  const opening = environments.get(path) ?? openEnvironment(path, { readOnly: true })
  environments.set(path, opening)
  try {
    const environment = await opening
    // LMDB refuses further reads in a transaction that has found damage
    environment.root.resetReadTxn()
    return read(environment, range)
  } catch (error) {
    return { rows: [], end: 'damage', error: serializeError(toRequestError(asDamage(error))) }
  }
}

function read({ root, table }: Environment, range: Omit<Request, 'directory' | 'name'>): Reply {
  const { table: name, start, limit, reverse } = range
  const tables = listTables(root)
  if (name === undefined || !tables.includes(name)) return { rows: [], end: 'missing' }
  const rowsOfTable = table(name)
  if (limit === undefined) return readRow(rowsOfTable, start)
  const source = rowsOfTable.getRange(reverse ? { reverse, limit } : { start, limit })[Symbol.iterator]()
  const rows: Reply['rows'] = []
  try {
    for (let bytes = 0; bytes <= replyBytesMax; ) {
      const { value: row, done } = source.next()
      if (done) return { rows, end: rows.length === limit ? 'more' : 'end' }
      const last = rows.at(-1)?.key
      // LMDB follows a damaged page to rows of other pages
      if (!reverse && Buffer.compare(last ?? start, row.key) >= (last ? 0 : 1)) return { rows, end: 'damage' }
      rows.push(row)
      bytes += row.key.length + row.value.length
    }
    return { rows, end: 'more' }
  } catch {
    return { rows, end: 'damage' }
  } finally {
    // otherwise the next read would use the transaction of the error
    source.return?.()
  }
}

/** Reads one row without touching the next one, whose page may be damaged. */
function readRow(table: Table, key: Buffer): Reply {
  try {
    const value = table.getBinary(key)
    return { rows: value ? [{ key, value }] : [], end: 'more' }
  } catch {
    return { rows: [], end: 'damage' }
  }
}
