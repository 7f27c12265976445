import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import type { Environment, Table } from './environment/environment.ts'
import type { SnapshotReader } from './read-snapshot.ts'
import { readErasures } from './writer/erasures.ts'
import type { Writer } from './writer/writer-client.ts'

export interface PurgeOptions {
  environment: Environment
  writer: Writer
  reader: SnapshotReader
  unpurged: Table
  scratch: Table
  /** @throws {IngestError} `store-closed` */
  checkOpen(): void
}

/** Pages that one transaction fills. */
const pagesPerStep = 512
/** How long a purge waits for readers of earlier snapshots. */
const readersTimeoutMs = 10_000
const pollMs = 20
/** A purge that was interrupted leaves its values behind; another process may still run one that is younger. */
const leftoverMs = 3_600_000

/**
 * Overwrites what erased events left in the data file. Old bytes are in two places: in free pages, which are taken,
 * filled with zeros and freed again, and in the unused parts of leaf pages, which LMDB leaves out when it copies a page
 * to write it. Nothing is done if nothing was erased since the last purge.
 *
 * @throws {IngestError} `overloaded` if a read of an earlier snapshot does not end
 */
export async function purge(options: PurgeOptions): Promise<void> {
  const { writer, reader, unpurged, checkOpen } = options
  const erasures = reader.readSnapshot(() => readErasures(unpurged))
  if (erasures === 0) return
  await freeLeftovers(options)
  while (await writer.erasure({ type: 'cleanLeaves' })) checkOpen()
  await readersBehind(options)
  await fillFreePages(options)
  await writer.erasure({ type: 'endPurge', erasures })
}

/** Resolves when no process reads a snapshot from before the call, as that keeps the pages of its events. */
async function readersBehind({ environment, checkOpen }: PurgeOptions): Promise<void> {
  const { root } = environment
  const until = performance.now() + readersTimeoutMs
  root.resetReadTxn()
  const last = (root.getStats() as { lastTxnId: number }).lastTxnId
  for (;;) {
    checkOpen()
    root.resetReadTxn()
    root.readerCheck()
    if (!transactionsRead(root.readerList()).some((transaction) => transaction < last)) return
    if (performance.now() > until) {
      throw new IngestError(
        'overloaded',
        'A long read of the store, such as a backup, still holds erased bytes: purge again when it has ended.',
        { retryAfterSeconds: 60 },
      )
    }
    await sleep(pollMs)
  }
}

/** The transactions whose snapshots are read now: the last column of LMDB's list. */
function transactionsRead(list: string): number[] {
  return list
    .split('\n')
    .map((line) => Number(line.trim().split(/\s+/).at(-1)))
    .filter((transaction) => transaction > 0)
}

async function fillFreePages({ environment, writer, checkOpen }: PurgeOptions): Promise<void> {
  const prefix = Buffer.concat([timePrefix(Date.now()), randomBytes(4)])
  const lastPage = () => (environment.root.getStats() as { lastPageNumber: number }).lastPageNumber
  let from = 0
  async function fill(count: number): Promise<void> {
    checkOpen()
    await writer.erasure({ type: 'fillPages', prefix, from, count })
    from += count
  }
  try {
    // LMDB reuses a page two transactions after the one that freed it
    for (let i = 0; i < 3; i++) await fill(1)
    // no page is free once most of these come from behind the end of the file
    for (let grown = 0; grown < 2; ) {
      const before = lastPage()
      await fill(pagesPerStep)
      grown = lastPage() - before > pagesPerStep / 2 ? grown + 1 : 0
    }
  } finally {
    while (await writer.erasure({ type: 'freePages', prefix })) {}
  }
}

async function freeLeftovers({ writer, reader, scratch }: PurgeOptions): Promise<void> {
  const end = timePrefix(Date.now() - leftoverMs)
  for (;;) {
    const [key] = reader.readSnapshot(() => [...scratch.getKeys({ end, limit: 1 })])
    if (!key) return
    await writer.erasure({ type: 'freePages', prefix: key.subarray(0, -4) })
  }
}

/** Milliseconds since 1970. */
function timePrefix(time: number): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigUInt64BE(BigInt(time))
  return bytes
}
