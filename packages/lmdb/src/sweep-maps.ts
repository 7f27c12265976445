import { setImmediate as nextTurn } from 'node:timers/promises'
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

  for (let from: Buffer = Buffer.alloc(0); ; ) {
    const { maps: unneeded, next } = readSnapshot(() => maps.unneeded(touchedBefore, from, turnRowsMax))
    for (const { project, id } of unneeded) {
      if (await writer.run({ type: 'sweepMap', project, map: id, touchedBefore })) await releaseChunks(writer)
    }
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
