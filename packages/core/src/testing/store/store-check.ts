import assert from 'node:assert/strict'
import type { Store } from '../../store.ts'
import { scopeStore } from './scope-store.ts'

/** Opens a new, empty store, independent of all others. */
export type OpenStore = () => Promise<Store> | Store

/** Opens a closed store again, with all that it keeps. */
export type ReopenStore = (closed: Store) => Promise<Store> | Store

/**
 * Takes a backup of a closed store. The function that it resolves with replaces that store, closed again by then, with
 * the backup, and opens it.
 */
export type BackUpStore = (closed: Store) => Promise<() => Promise<Store>>

/** One promise of the {@link Store} contract. */
export interface StoreCheck {
  /** The promise, as a fact: "a second append of a batch stores nothing". */
  name: string
  /** Whether the check needs a store of its own; all others may use one store, one after another: {@link shareStore}. */
  isolated: boolean
  /** Resolves when the store keeps the promise, rejects with an `AssertionError` otherwise; closes the stores it opens. */
  run(open: OpenStore): Promise<void>
}

/** One promise of a store that outlives its process. */
export interface DurableStoreCheck {
  name: string
  run(open: OpenStore, reopen: ReopenStore): Promise<void>
}

/** One promise of a store with backups. */
export interface RestoreCheck {
  name: string
  run(open: OpenStore, reopen: ReopenStore, backUp: BackUpStore): Promise<void>
}

/** Shares one store between checks that are not isolated: `open` opens it once, and only `close` closes it. */
export function shareStore(open: OpenStore): { open: OpenStore; close(): Promise<void> } {
  let opened: Promise<Store> | undefined
  return {
    async open() {
      opened ??= Promise.resolve(open())
      return { ...(await opened), async close() {} }
    },
    async close() {
      await (await opened)?.close()
    },
  }
}

/** A check that uses projects, and a time, of its own. */
export function check(name: string, use: (store: Store) => Promise<void>): StoreCheck {
  return {
    name,
    isolated: false,
    async run(open) {
      const store = await open()
      try {
        await use(scopeStore(store))
      } finally {
        await store.close()
      }
    },
  }
}

/** A check that closes its store, or opens another one. */
export function isolatedCheck(name: string, use: (store: Store, open: OpenStore) => Promise<void>): StoreCheck {
  return {
    name,
    isolated: true,
    async run(open) {
      const store = await open()
      try {
        await use(store, open)
      } finally {
        await store.close()
      }
    },
  }
}

export function durableCheck(
  name: string,
  use: (store: Store, reopen: () => Promise<Store>) => Promise<void>,
): DurableStoreCheck {
  return {
    name,
    async run(open, reopen) {
      let store = await open()
      try {
        await use(store, async () => {
          await store.close()
          store = await reopen(store)
          return store
        })
      } finally {
        await store.close()
      }
    },
  }
}

export async function assertRefused(promise: Promise<unknown>, code: string, what: string): Promise<void> {
  assert.equal(codeOf(await rejectionOf(promise)), code, `${what} is refused with ${code}`)
}

export function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : String(error)
}

export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new assert.AssertionError({ message: 'it was not refused' })
}

export function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}
