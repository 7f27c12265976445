import type { StoredEvent } from '@ingest/core'

/** What the files of an export contain: `ndjson()`, or `parquet()` of `@ingest/export/parquet`. */
export interface FileFormat {
  /** Names the format and its columns; all files of an export have the same. */
  name: string
  /** Without the dot, such as `ndjson.gz`. */
  extension: string
  /**
   * The bytes of one file. If `events` fails, the file should be completed before the error is thrown. `onMistyped`
   * is called for each value that is null because it does not fit the type of its column.
   */
  encode(events: AsyncIterable<StoredEvent>, onMistyped?: (column: string) => void): AsyncIterable<Uint8Array>
}
