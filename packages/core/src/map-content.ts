import { IngestError } from './error.ts'
import type { MapContent, MapKey } from './map.ts'
import type { MapSlot, Store } from './store.ts'

/** The complete map of a slot, to be read chunk by chunk; undefined when there is none. */
export function mapContent(store: Store, key: MapKey, { complete, frozenAt }: MapSlot): MapContent | undefined {
  if (!complete) return undefined
  const { digest, size, contentType, chunks } = complete.manifest

  async function* bytes(start = 0, end = size): AsyncGenerator<Uint8Array> {
    let at = 0
    for (const chunk of chunks) {
      const from = Math.max(start - at, 0)
      const to = Math.min(end - at, chunk.size)
      at += chunk.size
      if (from >= to) continue
      const found = await store.chunk(key.projectId, chunk.digest, (bytes) => Buffer.from(bytes.subarray(from, to)))
      if (!found) {
        const message = `The map of place "${key.placeId}" in build "${key.buildId}" was replaced while it was read: read it again.`
        throw new IngestError('map-replaced', message)
      }
      yield found
    }
  }

  const { placeId, buildId } = key
  return { placeId, buildId, digest, size, contentType, frozen: frozenAt !== undefined, bytes }
}
