import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MapId } from '@ingest/core'
import type { ChunkBlobs } from './chunks/chunk-blobs.ts'
import type { SnapshotReader } from './read-snapshot.ts'
import type { MapTables } from './tables/maps.ts'
import type { Writer } from './writer/writer-client.ts'

export interface SweepOptions {
  maps: MapTables
  blobs: ChunkBlobs
  writer: Writer
  reader: SnapshotReader
}

/** The most rows that one turn of the event loop reads. */
const turnRowsMax = 256

/** Drops expired and void manifests, what they alone named, and what a crash has left, in short steps. */
export async function sweepMaps(options: SweepOptions, touchedBefore: number): Promise<void> {
  const { maps, blobs, writer, reader } = options
  const { readSnapshot } = reader

  async function sweepMap(project: number, map: MapId): Promise<void> {
    if (await writer.run({ type: 'sweepMap', project, map, touchedBefore })) await releaseChunks(writer)
  }

  for (;;) {
    const [frozen] = readSnapshot(() => maps.pending.frozenWithPending(1))
    if (!frozen) break
    const { project, buildId } = frozen
    for (let after: MapId | undefined; ; ) {
      const { maps: voided, next } = readSnapshot(() => maps.voided(project, buildId, after, turnRowsMax))
      for (const id of voided) await sweepMap(project, id)
      if (!next) break
      after = next
      await nextTurn()
    }
    await writer.run({ type: 'forgetFrozen', project, buildId })
  }

  for (let from: Buffer = Buffer.alloc(0); ; ) {
    const { maps: expired, next } = readSnapshot(() => maps.expired(touchedBefore, from, turnRowsMax))
    for (const { project, id } of expired) await sweepMap(project, id)
    if (!next) break
    from = next
    await nextTurn()
  }

  // of a process that was killed
  await releaseChunks(writer)
  await blobs.collectOrphans()
}

/** Deletes detached manifests and their chunks, a bounded number in each transaction. */
export async function releaseChunks(writer: Writer): Promise<void> {
  while (await writer.run({ type: 'releaseChunks' })) {}
}
