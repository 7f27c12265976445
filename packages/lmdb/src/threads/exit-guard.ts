/**
 * A thread that is ended in the middle of LMDB's native code takes the process with it, or leaves a lock behind that
 * nobody opens again. A process that ends without closing its stores ends their threads. So each thread passes a guard
 * before it goes into LMDB, and whoever ends the process shuts the guards first.
 */
export interface ExitGuard {
  /** From here on the thread may not be ended. Never returns once the guard is shut. */
  enterNative(): void
  /** It may be ended from here on. */
  leaveNative(): void
}

// bits
const inNative = 1
const exiting = 2

/** The guards of one store: memory that its threads share. */
export type ExitGuards = Int32Array

/** The places of the guards. */
export const writerSlot = 0
export const indexerSlot = 1
export const blobSlot = 2

/** After so long a thread is ended wherever it is: its disk may never answer. */
const exitTimeoutMs = 2000

/** The guards of the stores that are open in this process. */
const openGuards = new Set<ExitGuards>()

/** Gates for the threads of a store, shut when the process ends; `release` when the threads have ended. */
export function openExitGuards(): { guards: ExitGuards; release(): void } {
  const guards = new Int32Array(new SharedArrayBuffer(12))
  if (openGuards.size === 0) process.once('exit', blockAll)
  openGuards.add(guards)
  return {
    guards,
    release() {
      openGuards.delete(guards)
      if (openGuards.size === 0) process.off('exit', blockAll)
    },
  }
}

function blockAll(): void {
  const end = Date.now() + exitTimeoutMs
  for (const guards of openGuards) {
    for (let place = 0; place < guards.length; place++) {
      Atomics.or(guards, place, exiting)
      if (Atomics.load(guards, place) & inNative) Atomics.wait(guards, place, inNative | exiting, end - Date.now())
    }
  }
}

/** The guard at one place, for the thread that it belongs to, and for the one that starts it. */
export function exitGuardAt(guards: ExitGuards, place: number): ExitGuard {
  return {
    enterNative() {
      if (Atomics.compareExchange(guards, place, 0, inNative) & exiting) Atomics.wait(guards, place, exiting)
    },
    leaveNative() {
      Atomics.and(guards, place, ~inNative)
      Atomics.notify(guards, place)
    },
  }
}
