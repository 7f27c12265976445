/**
 * Ending a thread inside LMDB's native code ends the process or leaves a lock behind that is never released, and a
 * process that exits ends its threads. So each thread passes its guard before it calls LMDB, and an exiting process
 * first blocks the guards, then waits for the threads that are inside. If they stay, it kills itself, so that the
 * kernel releases their locks.
 */
export interface ExitGuard {
  /** From here on the thread must not be ended. Never returns once the process exits. */
  enterNative(): void
  /** From here on the thread may be ended. */
  leaveNative(): void
}

// bits
const inNative = 1
const exiting = 2

/** The guards of one store, in memory that its threads share. */
export type ExitGuards = Int32Array

// the slots of the guards
export const writerSlot = 0
export const indexerSlot = 1
export const blobSlot = 2

/** How long an exit waits for all threads: a disk may never respond, and another process may keep the write lock. */
const exitTimeoutMs = 2000

/** The guards of the stores that are open in this process. */
const openGuards = new Set<ExitGuards>()

/** Guards for the threads of a store, blocked when the process exits. `release` them when the threads have ended. */
export function openExitGuards(): { guards: ExitGuards; release(): void } {
  const guards = new Int32Array(new SharedArrayBuffer(12))
  if (openGuards.size === 0) process.once('exit', blockAll)
  openGuards.add(guards)
  return {
    guards,
    release() {
      // a thread that is still inside was left behind by a closing
      if (guards.some((guard) => guard & inNative)) return
      openGuards.delete(guards)
      if (openGuards.size === 0) process.off('exit', blockAll)
    },
  }
}

function blockAll(): void {
  const end = Date.now() + exitTimeoutMs
  for (const guards of openGuards) {
    for (let slot = 0; slot < guards.length; slot++) {
      Atomics.or(guards, slot, exiting)
      if (Atomics.load(guards, slot) & inNative) Atomics.wait(guards, slot, inNative | exiting, end - Date.now())
      if (Atomics.load(guards, slot) & inNative) {
        process.kill(process.pid, 'SIGKILL')
        // process 1 of a container does not receive its own SIGKILL
        process.abort()
      }
    }
  }
}

/** The guard in one slot, for its thread and for the thread that starts it. */
export function exitGuardAt(guards: ExitGuards, slot: number): ExitGuard {
  return {
    enterNative() {
      if (Atomics.compareExchange(guards, slot, 0, inNative) & exiting) Atomics.wait(guards, slot, exiting)
    },
    leaveNative() {
      Atomics.and(guards, slot, ~inNative)
      Atomics.notify(guards, slot)
    },
  }
}
