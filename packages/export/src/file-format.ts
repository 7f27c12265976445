import type { StoredEvent } from '@ingest/core'

/** What the files of an export contain: `ndjson()`, or `parquet()` of `@ingest/export/parquet`. */
export interface FileFormat {
  /** Without the dot, such as `ndjson.gz`. */
  extension: string
  /** The bytes of one file. If `events` fails, the file should be completed before the error is thrown. */
  encode(events: AsyncIterable<StoredEvent>): AsyncIterable<Uint8Array>
}
