import { IngestError } from '../error.ts'
import type { Environment } from './environment.ts'
import { type Refusal, toRefusal } from './refusal.ts'
import type { Outcome } from './serve-requests.ts'

/** Writes for many requests at once; once the disk has failed, for none. */
export interface Commit {
  /**
   * Makes what `write` does durable, in one transaction, and answers each request with its value. When anything fails
   * the whole of it is undone, `onUndone` is called, and every request is refused.
   */
  commit<Value>(requests: readonly Asked[], write: () => Value[], onUndone?: () => void): Outcome<Value>[]
  /** Refuses requests for what came up before anything was written for them. */
  refuse(requests: readonly Asked[], error: unknown): Outcome<never>[]
  /** After a failed disk, LMDB's next transaction may be none, or never end. */
  failure(): Refusal | undefined
}

interface Asked {
  id: number
}

export function createCommit({ root, lost, isFull }: Environment): Commit {
  let failure: Refusal | undefined

  /** Before anything is acknowledged: what went into a file that is no longer there went nowhere. */
  function checkFile(): void {
    const what = lost()
    if (what !== undefined) throw new IngestError('store-failed', `${what}.`)
  }

  function refuse(requests: readonly Asked[], error: unknown): Outcome<never>[] {
    const refusal = toRefusal(error, isFull)
    if (refusal.code === 'store-failed') failure ??= refusal
    return requests.map(({ id }) => ({ id, refusal }))
  }

  return {
    commit(requests, write, onUndone = () => {}) {
      if (failure) return requests.map(({ id }) => ({ id, refusal: failure as Refusal }))
      try {
        const _t=performance.now(); let _w=0; const values = root.transactionSync(() => { const x = performance.now(); const r = write(); _w = performance.now() - x; return r }); ;(globalThis as any).C ??= {n:0,t:0,k:0,w:0}; const C=(globalThis as any).C; C.n++; C.k+=requests.length; C.w+=_w; C.t+=performance.now()-_t; if (C.n%100===0) {process.stderr.write(`commit ${C.t/C.n} of which write ${C.w/C.n} requests ${C.k/C.n}\n`); C.n=C.t=C.k=C.w=0}
        checkFile()
        return requests.map(({ id }, i) => ({ id, value: values[i] as (typeof values)[number] }))
      } catch (error) {
        onUndone()
        return refuse(requests, error)
      }
    },
    refuse,
    failure: () => failure,
  }
}
