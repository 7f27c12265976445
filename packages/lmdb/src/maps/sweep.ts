import type { Store } from '@ingest/core'
import { nextReadStep } from '@ingest/core/internal'
import type { ActivityCommands, ActivityTable } from '../activity/activity-table.ts'
import { sweepActivity } from '../activity/sweep-activity.ts'
import type { ChunkBlobs } from '../chunks/chunk-blobs.ts'
import { type SlicedReads, type SnapshotReader, stepRowsMax } from '../log/snapshot-reader.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import type { MapCommands } from './map-commands.ts'
import type { MapTables } from './map-tables.ts'

export interface SweepOptions {
  maps: MapTables
  blobs: ChunkBlobs
  writer: CommandRunner<MapCommands & ActivityCommands>
  reader: SnapshotReader
  activity: ActivityTable
  slicedReads(projectId: string): SlicedReads
  /** @throws {IngestError} `store-closed` */
  checkOpen(): void
}

export function createSweep(options: SweepOptions): Store['sweep'] {
  return async ({ mapsTouched, activity }) => {
    // each is swept even if the other cannot be
    try {
      await sweepActivity(options, activity)
    } finally {
      await sweepMaps(options, mapsTouched)
    }
  }
}

/** Drops expired and void manifests, the chunks that only they named, and leftovers of a crash, in short steps. */
async function sweepMaps(options: SweepOptions, touchedBefore: number): Promise<void> {
  const { maps, blobs, writer, reader, checkOpen } = options
  const { readSnapshot } = reader

  for (let from: Buffer = Buffer.alloc(0); ; ) {
    checkOpen()
    const { maps: unneeded, next } = readSnapshot(() => maps.unneeded(touchedBefore, from, stepRowsMax))
    for (const { project, id } of unneeded) {
      checkOpen()
      if (await writer.run({ type: 'sweepMap', project, map: id, touchedBefore })) await releaseChunks(writer)
    }
    if (!next) break
    from = next
    await nextReadStep('')
  }

  // left by a process that was killed
  await releaseChunks(writer)
  await blobs.collectOrphans()
}

/** Deletes detached manifests and their chunks, a bounded number in each transaction. */
export async function releaseChunks(writer: CommandRunner<MapCommands>): Promise<void> {
  while (await writer.run({ type: 'releaseChunks' })) {}
}
