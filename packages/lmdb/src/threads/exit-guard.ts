/**
 * A thread that is ended in the middle of LMDB's native code takes the process with it, or leaves a lock behind that
 * nobody opens again. A process that ends without closing its stores ends their threads. So each thread passes a gate
 * before it goes into LMDB, and whoever ends the process shuts the gates first.
 */
export interface Gate {
  /** From here on the thread may not be ended. Never returns once the gate is shut. */
  enter(): void
  /** It may be ended from here on. */
  leave(): void
}

// bits
const inside = 1
const shut = 2

/** The gates of one store: memory that its threads share. */
export type Gates = Int32Array

/** The places of the gates. */
export const writerGate = 0
export const indexerGate = 1
export const bytesGate = 2

/** After so long a thread is ended wherever it is: its disk may never answer. */
const patienceMs = 2000

/** The gates of the stores that are open in this process. */
const open = new Set<Gates>()

/** Gates for the threads of a store, shut when the process ends; `letGo` when the threads have ended. */
export function openGates(): { gates: Gates; letGo(): void } {
  const gates = new Int32Array(new SharedArrayBuffer(12))
  if (open.size === 0) process.once('exit', shutAll)
  open.add(gates)
  return {
    gates,
    letGo() {
      open.delete(gates)
      if (open.size === 0) process.off('exit', shutAll)
    },
  }
}

function shutAll(): void {
  const end = Date.now() + patienceMs
  for (const gates of open) {
    for (let place = 0; place < gates.length; place++) {
      Atomics.or(gates, place, shut)
      if (Atomics.load(gates, place) & inside) Atomics.wait(gates, place, inside | shut, end - Date.now())
    }
  }
}

/** The gate at one place, for the thread that it belongs to, and for the one that starts it. */
export function gateAt(gates: Gates, place: number): Gate {
  return {
    enter() {
      if (Atomics.compareExchange(gates, place, 0, inside) & shut) Atomics.wait(gates, place, shut)
    },
    leave() {
      Atomics.and(gates, place, ~inside)
      Atomics.notify(gates, place)
    },
  }
}
