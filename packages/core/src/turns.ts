/** Runs operations with the same key one after another: optimistic updates of one process would lose races to each other. */
export function createTurns(): <T>(key: string, operation: () => Promise<T>) => Promise<T> {
  const lastByKey = new Map<string, Promise<unknown>>()
  return (key, operation) => {
    const result = (lastByKey.get(key) ?? Promise.resolve()).then(operation)
    const settled: Promise<void> = result.then(
      () => {},
      () => {},
    )
    lastByKey.set(key, settled)
    settled.then(() => {
      if (lastByKey.get(key) === settled) lastByKey.delete(key)
    })
    return result
  }
}
