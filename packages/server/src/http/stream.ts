/** A response body that is produced while it is sent. A reader that stops early must call `return`. */
export interface BodyStream extends AsyncIterableIterator<Uint8Array> {
  return(): Promise<IteratorResult<Uint8Array>>
}

export interface StreamOptions {
  /** Called with an error after the start of the stream. */
  onError(error: unknown): void
  /** Called once, at the end of the stream, for whatever reason. */
  onEnd(): void
}

/**
 * Starts a body. Rejects with an error of its first two chunks, while the status can still be chosen. A body of at most
 * one chunk is returned as bytes, so that its length is known.
 */
export async function startStream(
  source: AsyncIterable<Uint8Array>,
  { onError, onEnd }: StreamOptions,
): Promise<Uint8Array | BodyStream> {
  const rest = watchEnd(source[Symbol.asyncIterator](), onEnd)
  const first = await rest.next()
  if (first.done) return new Uint8Array()
  const second = await rest.next()
  if (second.done) return first.value
  const buffered = [first, second]
  const stream: BodyStream = {
    async next() {
      try {
        return buffered.shift() ?? (await rest.next())
      } catch (error) {
        onError(error)
        throw error
      }
    },
    return() {
      buffered.length = 0
      return rest.return()
    },
    [Symbol.asyncIterator]: () => stream,
  }
  return stream
}

/**
 * The same chunks; `onChunk` is called with the size of each, `onEnd` once: at their end, an error, or `return`.
 */
export function watchEnd(
  source: AsyncIterator<Uint8Array>,
  onEnd: () => void,
  onChunk?: (bytes: number) => void,
): BodyStream {
  let isEnded = false
  function end(): void {
    if (isEnded) return
    isEnded = true
    onEnd()
  }
  const watched: BodyStream = {
    async next() {
      try {
        const result = await source.next()
        if (result.done) end()
        else onChunk?.(result.value.length)
        return result
      } catch (error) {
        end()
        throw error
      }
    },
    async return() {
      end()
      await source.return?.()
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => watched,
  }
  return watched
}
