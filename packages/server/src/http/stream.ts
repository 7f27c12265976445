/** A response body that is produced while it is sent. A reader that stops before the end or an error calls `return`. */
export interface BodyStream extends AsyncIterableIterator<Uint8Array> {
  return(): Promise<IteratorResult<Uint8Array>>
}

export interface StreamOptions {
  /** Called with an error after the start of the stream. */
  onError(error: unknown): void
  /** Called at the end of the stream, for whatever reason; may be called more than once. */
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
  const iterator = source[Symbol.asyncIterator]()
  async function next(): Promise<IteratorResult<Uint8Array>> {
    try {
      const result = await iterator.next()
      if (result.done) onEnd()
      return result
    } catch (error) {
      onEnd()
      throw error
    }
  }
  const first = await next()
  if (first.done) return new Uint8Array()
  const second = await next()
  if (second.done) return first.value
  const buffered = [first, second]
  const stream: BodyStream = {
    async next() {
      const result = buffered.shift()
      if (result) return result
      try {
        return await next()
      } catch (error) {
        onError(error)
        throw error
      }
    },
    async return() {
      onEnd()
      buffered.length = 0
      await iterator.return?.()
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => stream,
  }
  return stream
}
