import { pipeline } from 'node:stream'
import { createGzip } from 'node:zlib'
import { eventLine, type StoredEvent } from '@ingest/core'
import type { FileFormat } from './file-format.ts'

/** Options of `ndjson`. */
export interface NdjsonOptions {
  /** Compresses files with gzip: `.ndjson.gz`. Default: false. */
  gzip?: boolean
}

/**
 * NDJSON, as in `GET /v1/events`: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}`. Without gzip, if the events
 * fail, it yields the lines before the error and then throws it.
 */
export function ndjson({ gzip = false }: NdjsonOptions = {}): FileFormat {
  if (!gzip) return { name: 'ndjson', extension: 'ndjson', encode: encodeNdjson }
  return {
    name: 'ndjson with gzip',
    extension: 'ndjson.gz',
    // the last stream rejects with errors of the others too
    encode: (events) => pipeline(encodeNdjson(events), createGzip(), () => {}),
  }
}

const chunkBytes = 64 * 1024

/** Chunks of at least 64 KiB, except the last. */
async function* encodeNdjson(events: AsyncIterable<StoredEvent>): AsyncGenerator<Buffer, void> {
  let lines: Buffer[] = []
  let bytes = 0

  function flush(): Buffer {
    const chunk = Buffer.concat(lines)
    lines = []
    bytes = 0
    return chunk
  }

  try {
    for await (const event of events) {
      const line = eventLine(event)
      lines.push(line)
      bytes += line.length
      if (bytes >= chunkBytes) yield flush()
    }
  } catch (error) {
    if (bytes > 0) yield flush()
    throw error
  }
  if (bytes > 0) yield flush()
}
