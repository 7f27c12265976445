import type { StoredEvent } from '@ingest/core'

/** The format of the files of an export: `ndjson()`, or `parquet()` of `@ingest/export/parquet`. */
export interface FileFormat {
  /** Names the format and its columns; all files of an export have the same. */
  name: string
  /** File name extension without the leading dot, such as `ndjson.gz`. */
  extension: string
  /**
   * The bytes of one file. If `events` fails, the file should be completed before the error is thrown. `onMistyped` is
   * called for each value that does not fit its column's type and becomes null.
   */
  encode(events: AsyncIterable<StoredEvent>, onMistyped?: (column: string) => void): AsyncIterable<Uint8Array>
}
