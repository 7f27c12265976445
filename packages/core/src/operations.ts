import { IngestError } from './error.ts'

export interface Operations {
  /** @throws {IngestError} `store-closed` once the store is closing */
  checkOpen(): void
  /** Runs an operation. @throws {IngestError} the code of `checkOpen` */
  run<T>(operation: () => Promise<T>): Promise<T>
  /** The same operations, each refused once the store is closing. */
  trackAll<T extends object>(operations: T): T
  /** Refuses new operations, and resolves when none is in flight. */
  drain(): Promise<void>
}

/** Tracks the operations in flight of a store, so that they finish before it closes. */
export function createOperations(): Operations {
  let isClosing = false
  let running = 0
  let onIdle = () => {}

  function checkOpen(): void {
    if (isClosing) throw new IngestError('store-closed', 'The store is closed.')
  }

  async function run<T>(operation: () => Promise<T>): Promise<T> {
    checkOpen()
    running++
    try {
      return await operation()
    } finally {
      running--
      if (running === 0) onIdle()
    }
  }

  return {
    checkOpen,
    run,

    trackAll<T extends object>(operations: T): T {
      const tracked = Object.entries(operations).map(([name, operation]) => [
        name,
        (...args: unknown[]) => run(() => operation(...args)),
      ])
      return Object.fromEntries(tracked)
    },

    async drain() {
      isClosing = true
      if (running === 0) return
      await new Promise<void>((resolve) => {
        onIdle = resolve
      })
    },
  }
}

/** Runs operations with the same key one at a time: concurrent optimistic updates of one process would conflict. */
export function createKeyedMutex(): <T>(key: string, operation: () => Promise<T>) => Promise<T> {
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
