import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ChunkUpload, type Digest, IngestError } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import { chunkKey, type MapTables, openMapTables, type Place, uploadBytes } from '../tables/maps.ts'
import { blobSlot, type ExitGuards } from '../threads/exit-guard.ts'
import { type RequestClient, startRequestClient } from '../threads/request-client.ts'
import type { Writer } from '../writer/writer-client.ts'
import { type BytesRequest, type BytesValue, type BytesWriterData, sizeOf } from './blob-writer.ts'
import { createMemoryPool } from './memory-pool.ts'

/**
 * The bytes of chunks, in an environment of their own, so that an upload holds up no commit of events. Which of them are
 * chunks is said by the map tables alone: bytes are written first and named afterwards, and are first disowned, by a row
 * of waste, and deleted afterwards. So a crash leaves nothing but bytes that are found again and deleted.
 *
 * No two uploads share a place, so what is deleted is never what somebody else has just written.
 */
export interface ChunkBytes {
  /** Resolves, with where they are, once they are durable. */
  write(project: number, uploads: readonly ChunkUpload[]): Promise<Map<Digest, Place>>
  /** What `use` makes of bytes, which are valid only as long as it runs. */
  read<T>(place: Place, use: (bytes: Uint8Array) => T): T | undefined
  /** Whether bytes that were written may be named, asked in the decision that does so: nobody has disowned them. */
  canName(maps: MapTables, place: Place): boolean
  /** Deletes waste; resolves when there is none, or when it cannot be deleted now. */
  clean(): Promise<void>
  /** Disowns and deletes bytes that a crash has left, and those of uploads under way, which are written once more. */
  sweep(): Promise<void>
  /** Takes nothing more, and resolves when what was being written is. */
  close(): Promise<void>
  closeEnvironment(): Promise<void>
}

export interface ChunkBytesOptions {
  /** Known to belong to the store of the maps: what these do not name is deleted. */
  environment: Environment
  directory: string
  maps: MapTables
  /** Of the environment of the maps. */
  writer: Writer
  /** Reads at one moment; throws when the store cannot be read any more. */
  look<T>(read: () => T): T
  guards: ExitGuards
  timeoutMs: number
}

/** So many keys are looked at, or deleted, between turns of others. */
const keysAtOnce = 256

export function openChunkBytes(options: ChunkBytesOptions): ChunkBytes {
  const { environment, directory, maps, writer, look, guards, timeoutMs } = options
  const bytes = environment.table('bytes')
  const memory = createMemoryPool()
  let thread: Promise<RequestClient<BytesRequest>> | undefined
  let lastId = 0
  let isClosed = false
  let cleanAgain = false
  let cleaning: Promise<void> | undefined

  /** The thread that writes, started for the first that there is to write. */
  function bytesWriter(): Promise<RequestClient<BytesRequest>> {
    const data: BytesWriterData = { directory, fileIds: environment.fileIds, guards }
    if (!thread && isClosed) return Promise.reject(new IngestError('store-closed', 'The store is closed.'))
    thread ??= startRequestClient<BytesRequest>({
      module: new URL('./blob-worker.js', import.meta.url),
      data,
      slot: blobSlot,
      onFatal: writer.fail,
      lockHolder: environment.lockHolder,
      timeoutMs,
    }).catch((error) => {
      thread = undefined
      if (error.code === 'store-failed') writer.fail(error)
      throw error
    })
    return thread
  }

  async function cleanAll(): Promise<void> {
    try {
      while (cleanAgain) {
        cleanAgain = false
        for (;;) {
          const places = look(() => maps.waste(keysAtOnce))
          if (places.length === 0) break
          await (await bytesWriter()).request({ type: 'remove', id: ++lastId, places }, 0)
          await writer.decide((table) => openMapTables(table).forget(places))
        }
      }
    } catch {
      // waste that is left is found when the store is opened again; why it is, the writers have told
    }
  }

  function clean(): Promise<void> {
    cleanAgain = true
    cleaning ??= cleanAll().finally(() => {
      cleaning = undefined
      // asked for after the last look
      if (cleanAgain) return clean()
    })
    return cleaning
  }

  return {
    async write(project, uploads) {
      const places = new Map(
        uploads.map(({ digest }) => [digest, Buffer.concat([chunkKey(project, digest), randomBytes(uploadBytes)])]),
      )
      const rows = uploads.map(({ digest, bytes }) => {
        const own = memory.take(bytes.length)
        own.set(bytes)
        return { place: places.get(digest) as Place, bytes: own }
      })
      const request = { type: 'write', id: ++lastId, rows } as const
      const transfer = rows.map(({ bytes }) => bytes.buffer)
      memory.giveBack(await (await bytesWriter()).request<BytesValue>(request, sizeOf(request), transfer))
      return places
    },

    read(place, use) {
      environment.root.resetReadTxn()
      // lmdb's own buffer, of which only so much is the value, and only until it reads again
      const found = bytes.getBinaryFast(place)
      return found && use(Buffer.from(found.buffer, found.byteOffset, found.length))
    },

    canName(maps, place) {
      if (maps.isWaste(place)) return false
      environment.root.resetReadTxn()
      return bytes.doesExist(place)
    },

    clean,

    async sweep() {
      let start = Buffer.alloc(0)
      for (;;) {
        const places = look(() => {
          environment.root.resetReadTxn()
          return Array.from(bytes.getKeys({ start, limit: keysAtOnce }), (key) => Buffer.from(key))
        })
        const last = places.at(-1)
        if (!last) break
        const orphans = look(() => places.filter((place) => !maps.isKept(place)))
        if (orphans.length > 0) {
          await writer.decide((table) => {
            const maps = openMapTables(table)
            for (const place of orphans) if (!maps.isKept(place)) maps.discard(place)
          })
        }
        start = Buffer.concat([last, Buffer.of(0)])
        await nextTurn()
      }
      if (look(() => maps.waste(1)).length > 0) await clean()
    },

    async close() {
      isClosed = true
      await thread?.then(
        ({ close }) => close(),
        () => {},
      )
    },
    closeEnvironment: () => environment.root.close(),
  }
}
