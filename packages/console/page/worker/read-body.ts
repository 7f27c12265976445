import { readBlocks } from '../api/event-lines.ts'
import { foreignResponse } from '../api/ingest-response.ts'
import { RequestError } from '../api/request-error.ts'
import type { CallContext } from './call-context.ts'

export interface LoadProgress {
  loaded: number
  total: number
}

const progressBytes = 1 << 20

/**
 * Reads a body of `total` bytes as it is received. `onBlock` receives every block once.
 *
 * @throws {RequestError} `offline` if it breaks off, or stalls for 30 seconds; `foreign` if it has another length
 * @throws the reason of the signal
 */
export async function readBody(
  response: Response,
  total: number,
  onBlock: (block: Uint8Array<ArrayBuffer>) => void,
  { api, signal, onProgress }: CallContext<LoadProgress>,
): Promise<void> {
  let failure = foreignResponse()
  let loaded = 0
  let reported = 0
  try {
    for await (const block of readBlocks(response)) {
      loaded += block.length
      if (loaded > total) break
      onBlock(block)
      if (loaded - reported >= progressBytes) {
        reported = loaded
        onProgress({ loaded, total })
      }
    }
  } catch {
    // the length shows whether the body is complete
    failure = new RequestError('offline', 'The response was interrupted.')
  }
  signal.throwIfAborted()
  if (loaded === total) return
  api.observer.onError?.(failure)
  throw failure
}
