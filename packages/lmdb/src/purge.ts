import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import type { Environment, Table } from './environment/environment.ts'
import type { SnapshotReader } from './read-snapshot.ts'
import { endOfPrefix, readErasures } from './writer/erasures.ts'
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
/** What the keys of one purge begin with. */
const prefixBytes = 12

/**
 * Overwrites what erased events left in the data file. Old bytes are in two places: in free pages, which are taken,
 * filled with zeros and freed again, and in the unused parts of leaf pages, which LMDB leaves out when it copies a page
 * to write it. Nothing is done if nothing was erased since the last purge.
 *
 * @throws {IngestError} `overloaded` if a read of an earlier snapshot does not end
 */
export async function purge(options: PurgeOptions): Promise<void> {
  const { writer, reader, unpurged, checkOpen } = options
  await freeLeftovers(options)
  const erasures = reader.readSnapshot(() => readErasures(unpurged))
  if (erasures === 0) return
  while (await writer.erasure({ type: 'cleanLeaves' })) checkOpen()
  await fillFreePages(options)
  await writer.erasure({ type: 'endPurge', erasures })
}

/** Resolves when no process reads a snapshot from before the last commit, as that keeps the pages of its events. */
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

async function fillFreePages(options: PurgeOptions): Promise<void> {
  const { environment, writer, checkOpen } = options
  const prefix = randomBytes(prefixBytes)
  let from = 0
  async function fill(count: number): Promise<number> {
    checkOpen()
    // freeing the pages takes some space too
    environment.checkSpace()
    const grown = await writer.erasure({ type: 'fillPages', prefix, from, count })
    from += count
    return grown
  }
  try {
    // a snapshot of the last erasure keeps the pages that it freed: readers must be behind another commit
    await fill(1)
    await readersBehind(options)
    // LMDB reuses a page two transactions after the one that freed it
    for (let i = 0; i < 2; i++) await fill(1)
    // no page is free once most of these come from behind the end of the file
    for (let grown = 0; grown < 2; ) grown = (await fill(pagesPerStep)) > pagesPerStep / 2 ? grown + 1 : 0
  } finally {
    while (await writer.erasure({ type: 'freePages', prefix })) {}
  }
}

/** Frees what purges that were interrupted have filled; one that still runs in another process fills it again. */
async function freeLeftovers({ writer, reader, scratch }: PurgeOptions): Promise<void> {
  for (let start: Buffer = Buffer.alloc(prefixBytes); ; ) {
    const [key] = reader.readSnapshot(() => [...scratch.getKeys({ start, limit: 1 })])
    if (!key) return
    const prefix = Buffer.from(key.subarray(0, prefixBytes))
    while (await writer.erasure({ type: 'freePages', prefix })) {}
    start = endOfPrefix(prefix)
  }
}
