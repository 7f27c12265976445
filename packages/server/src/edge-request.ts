import type { IngestError } from '@ingest/core'
import type { RequestHeaders } from './request-headers.ts'

/** How many bytes a body may have, before and after inflating, and the refusal of one that has more. */
export interface BodyLimit {
  bytesMax: number
  /** `actual` is what is known of its size so far. */
  tooLarge(actual: number): IngestError
}

/** A request, whichever edge it came in by. */
export interface EdgeRequest {
  method: string
  /** Without prefix, query and fragment. */
  path: string
  /** Without its question mark; empty without one. */
  query: string
  headers: RequestHeaders
  /**
   * The body, inflated if `gzip`. Called once at most, when everything that can be decided without it is. It may be put
   * into `memory`, which is the caller's again when this settles.
   *
   * @throws {IngestError} what `limit` refuses with; `malformed-body` for broken gzip; `request-timeout` when the sender
   *   left before the end; `internal-error` when somebody else has read it.
   */
  readBody(gzip: boolean, limit: BodyLimit, memory?: Uint8Array): Promise<Uint8Array>
  /**
   * Calls `action` when nobody may wait for the answer any more: the connection is closed, or at least the half of it
   * that its sender writes, which is all that can be seen of a sender that is gone. Returns what ends that.
   */
  onLeave(action: () => void): () => void
}
