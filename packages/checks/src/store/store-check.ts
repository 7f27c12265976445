import assert from 'node:assert/strict'
import type { Store } from '@ingest/core'
import { createScope, scopeStore } from './scope-store.ts'

/** Opens a new, empty store, independent of all others. */
export type OpenStore = () => Promise<Store> | Store

/** Opens another, independent handle on the same store, like another process or pool of connections. */
export type OpenAgain = (store: Store) => Promise<Store> | Store

/** Opens a closed store again, with its data. */
export type ReopenStore = (closed: Store) => Promise<Store> | Store

/**
 * Takes a backup of a closed store. Resolves with a function that replaces the store, which is closed again by then, with
 * the backup, and opens it.
 */
export type BackUpStore = (closed: Store) => Promise<() => Promise<Store>>

/** One promise of the {@link Store} contract. */
export interface StoreCheck {
  /** The promise, as a fact: "a second append of a batch stores nothing". */
  name: string
  /** Whether the check needs its own store. Other checks may use one store, one after another: {@link shareStore}. */
  isolated: boolean
  /** Resolves if the store keeps the promise, otherwise rejects with an `AssertionError`. Closes the stores it opens. */
  run(open: OpenStore): Promise<void>
}

/** One promise of a store that several processes use at once. */
export interface SharedStoreCheck {
  name: string
  /** As in {@link StoreCheck}. */
  isolated: boolean
  run(open: OpenStore, openAgain: OpenAgain): Promise<void>
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

/** Opens one store for all checks that are not isolated; only `close` closes it. */
export function shareStore(
  open: OpenStore,
  openAgain?: OpenAgain,
): { open: OpenStore; openAgain: OpenAgain; close(): Promise<void> } {
  let opened: Promise<Store> | undefined
  const handles: Store[] = []
  const unused: Store[] = []

  async function openFurther(): Promise<Store> {
    const handle = await openAgain?.((await opened) as Store)
    assert.ok(handle, 'openAgain is not given')
    handles.push(handle)
    return handle
  }

  return {
    async open() {
      opened ??= Promise.resolve(open())
      return { ...(await opened), async close() {} }
    },
    async openAgain() {
      const handle = unused.pop() ?? (await openFurther())
      return { ...handle, close: async () => void unused.push(handle) }
    },
    async close() {
      await Promise.all(handles.map((handle) => handle.close()))
      await (await opened)?.close()
    },
  }
}

/** A check that uses its own projects and times. */
export function check(name: string, use: (store: Store) => Promise<void>): StoreCheck {
  return { name, isolated: false, run: (open) => withStore(open, (store) => use(scopeStore(store, createScope()))) }
}

/** A check that closes its store, or opens another one. */
export function isolatedCheck(name: string, use: (store: Store, open: OpenStore) => Promise<void>): StoreCheck {
  return { name, isolated: true, run: (open) => withStore(open, (store) => use(store, open)) }
}

async function withStore(open: OpenStore, use: (store: Store) => Promise<void>): Promise<void> {
  const store = await open()
  try {
    await use(store)
  } finally {
    await store.close()
  }
}

/** Three handles on one store. */
export type Handles = readonly [Store, Store, Store]

/** A check of three handles that uses its own projects and times. */
export function sharedCheck(name: string, use: (handles: Handles) => Promise<void>): SharedStoreCheck {
  return {
    name,
    isolated: false,
    run: (open, openAgain) =>
      withHandles(open, openAgain, ([a, b, c]) => {
        const scope = createScope()
        return use([scopeStore(a, scope), scopeStore(b, scope), scopeStore(c, scope)])
      }),
  }
}

/** A check that closes its handles. */
export function isolatedSharedCheck(name: string, use: (handles: Handles) => Promise<void>): SharedStoreCheck {
  return { name, isolated: true, run: (open, openAgain) => withHandles(open, openAgain, use) }
}

/** The same check for a store with one handle, which takes all three roles at once. */
export function withOneHandle({ name, isolated, run }: SharedStoreCheck): StoreCheck {
  const openAgain = (store: Store) => ({ ...store, async close() {} })
  return { name: `with one handle: ${name}`, isolated, run: (open) => run(open, openAgain) }
}

async function withHandles(open: OpenStore, openAgain: OpenAgain, use: (handles: Handles) => Promise<void>) {
  const store = await open()
  const handles = [store]
  try {
    const opening = range(2).map(async () => handles.push(await openAgain(store)))
    for (const result of await Promise.allSettled(opening)) if (result.status === 'rejected') throw result.reason
    await use(handles as unknown as Handles)
  } finally {
    await Promise.all(handles.map((handle) => handle.close()))
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
