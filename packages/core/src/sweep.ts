import { IngestError } from './error.ts'
import type { Store } from './store.ts'

export interface SweepOptions {
  /** In milliseconds since 1970. */
  now(): number
  activityKeepMs: number
  /** Called with the error of each sweep that fails, unless the store is closed. */
  onError(error: unknown): void
}

/** Pending manifests expire after this time without an upload, in milliseconds. */
const idleMs = 7 * 24 * 3_600_000
const sweepEveryMs = 3_600_000
/** The delay of the first sweep, so that short commands end before it. */
const firstSweepMs = 60_000

/** Sweeps a store in the background every {@link sweepEveryMs}, until it is closed. */
export function startSweeping(store: Store, { now, activityKeepMs, onError }: SweepOptions): void {
  async function sweep(): Promise<void> {
    try {
      await store.sweep({ mapsTouched: now() - idleMs, activity: now() - activityKeepMs })
    } catch (error) {
      if (error instanceof IngestError && error.code === 'store-closed') return
      // the cause, such as a full disk, may be gone at the next sweep
      onError(error)
    }
    sweepAfter(sweepEveryMs)
  }

  function sweepAfter(ms: number): void {
    setTimeout(sweep, ms).unref()
  }

  sweepAfter(firstSweepMs)
}
