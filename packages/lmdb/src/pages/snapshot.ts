import { join } from 'node:path'
import { IngestError } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import { type Meta, openPageFile, type PageFile, type Row, readTable, rowsOf } from '../environment/page-file.ts'

/** One snapshot of an environment that other processes write to. No page of it is used again until it is released. */
export interface Snapshot {
  /** The directory of the environment. */
  directory: string
  file: PageFile
  meta: Meta
  release(): void
}

/** How often a meta page may be replaced while it is read. */
const triesMax = 1000

/**
 * Takes the latest snapshot of the environment in `directory`.
 *
 * @throws {IngestError} `store-damaged` if its meta page is damaged
 */
export function takeSnapshot({ root }: Environment, directory: string): Snapshot {
  const file = openPageFile(join(directory, 'data.mdb'))
  // LMDB keeps the pages of this snapshot and of all later ones
  root.resetReadTxn()
  const transaction = root.useReadTransaction()
  const release = () => {
    transaction.done()
    file.close()
  }
  for (let tries = 0; tries < triesMax; tries++) {
    const { lastTxnId } = root.getStats() as { lastTxnId: number }
    const [meta, again] = [file.metas(), file.metas()].map((metas) =>
      metas.find(({ transaction }) => transaction === lastTxnId),
    )
    if (meta && meta.main === again?.main && meta.free === again.free) return { directory, file, meta, release }
  }
  release()
  throw damaged(directory, 'its header is damaged')
}

/** The names of the tables of a snapshot, and their roots. @throws {IngestError} `store-damaged` */
export function* readTables(snapshot: Snapshot): Generator<{ name: string; root: bigint }> {
  for (const row of readRows(snapshot, snapshot.meta.main)) {
    const table = row.isTable ? readTable(row) : undefined
    if (table) yield table
  }
}

/** The rows of a table of a snapshot. @throws {IngestError} `store-damaged` */
export function readRows({ file, directory }: Snapshot, root: bigint): Generator<Row> {
  return rowsOf(file, root, {
    onDamage(page) {
      throw damaged(directory, `page ${page} is damaged`)
    },
  })
}

function damaged(directory: string, why: string): IngestError {
  return new IngestError(
    'store-damaged',
    `${join(directory, 'data.mdb')}: ${why}. \`ingest repair\` saves what is left.`,
  )
}
