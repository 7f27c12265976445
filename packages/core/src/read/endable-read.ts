/**
 * A signal that aborts with the first of `signals`, or when `abort` is called. `unfollow` removes its listeners.
 * `AbortSignal.any` would leak: while a source signal has not aborted, the combined signal stays in memory.
 */
function followSignals(signals: readonly (AbortSignal | undefined)[]) {
  const controller = new AbortController()
  const unfollow: (() => void)[] = []
  for (const each of signals) {
    if (!each) continue
    const abort = () => controller.abort(each.reason)
    if (each.aborted) abort()
    each.addEventListener('abort', abort)
    unfollow.push(() => each.removeEventListener('abort', abort))
  }
  return {
    signal: controller.signal,
    abort: (reason: unknown) => controller.abort(reason),
    unfollow() {
      for (const remove of unfollow.splice(0)) remove()
    },
  }
}

/** Items that are read on demand. `return` ends the read at once, including a pending `next`. */
export interface EndableRead<T> extends AsyncIterableIterator<T> {
  return(): Promise<IteratorResult<T>>
}

/**
 * The items of `read`, whose signal aborts with the first of `signals`, or when the consumer calls `return`; `read` must
 * reject soon after that. A generator would not do: its `return` waits for the next item, which may never come.
 */
export function endableRead<T>(
  signals: readonly (AbortSignal | undefined)[],
  read: (signal: AbortSignal) => AsyncGenerator<T, void>,
): EndableRead<T> {
  const returned = new Error('The consumer has left.')
  let following: ReturnType<typeof followSignals> | undefined
  let source: AsyncGenerator<T, void> | undefined
  let isReturned = false

  async function next(): Promise<IteratorResult<T, void>> {
    if (isReturned) return { done: true, value: undefined }
    following ??= followSignals(signals)
    source ??= read(following.signal)
    try {
      const result = await source.next()
      if (result.done) following.unfollow()
      return result
    } catch (error) {
      following.unfollow()
      if (error !== returned) throw error
      return { done: true, value: undefined }
    }
  }

  const iterator: EndableRead<T> = {
    next,
    async return() {
      isReturned = true
      following?.abort(returned)
      following?.unfollow()
      await source?.return()
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => iterator,
  }
  return iterator
}
