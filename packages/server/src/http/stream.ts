import type { Pieces } from './response.ts'

/** Told of what becomes of a body that is made while it is sent. */
export interface PieceWatch {
  /** It failed after its beginning. */
  onBreak(error: unknown): void
  /** When nothing more is read of it, for whatever reason. May be called again. */
  onEnd(): void
}

/**
 * Begins a body. What it fails with in the beginning is thrown here, where it can still be answered. One that is no
 * more than a piece is returned as that, so that its length can be said.
 */
export async function beginPieces(
  source: AsyncIterable<Uint8Array>,
  { onBreak, onEnd }: PieceWatch,
): Promise<Uint8Array | Pieces> {
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
  const ahead = [first, second]
  const pieces: Pieces = {
    async next() {
      const known = ahead.shift()
      if (known) return known
      try {
        return await next()
      } catch (error) {
        onBreak(error)
        throw error
      }
    },
    async return() {
      onEnd()
      ahead.length = 0
      await iterator.return?.()
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => pieces,
  }
  return pieces
}
