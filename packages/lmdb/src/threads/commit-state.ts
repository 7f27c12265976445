/**
 * Memory that a client shares with the thread that commits its requests: the phase of the thread, and the round of
 * requests that it may commit. A client that begins a new round has withdrawn all earlier requests.
 */
export type CommitState = Int32Array

// the two lowest bits are the phase, the others the round
const waiting = 1
const committing = 2
const phaseMask = 3
const oneRound = 4

export function createCommitState(): CommitState {
  return new Int32Array(new SharedArrayBuffer(4))
}

/** The round of requests that are sent now. */
export function roundOf(state: CommitState): number {
  return Atomics.load(state, 0) >> 2
}

/** Whether the thread waits for the write lock. */
export function isWaitingForLock(state: CommitState): boolean {
  return (Atomics.load(state, 0) & phaseMask) === waiting
}

/** Withdraws all requests that were sent: none will be committed. Returns false, without effect, during a commit. */
export function withdrawRequests(state: CommitState): boolean {
  for (;;) {
    const value = Atomics.load(state, 0)
    if ((value & phaseMask) === committing) return false
    if (Atomics.compareExchange(state, 0, value, value + oneRound) === value) return true
  }
}

/** Withdraws the requests that are in no transaction yet. */
export function withdrawQueuedRequests(state: CommitState): void {
  Atomics.add(state, 0, oneRound)
}

/** Called by the thread before it takes the write lock. */
export function beginWaiting(state: CommitState): void {
  Atomics.add(state, 0, waiting)
}

/** Called by the thread when it has the write lock. Returns the round of the requests that it may commit. */
export function beginCommit(state: CommitState): number {
  return Atomics.add(state, 0, committing - waiting) >> 2
}

/** Called by the thread after the transaction, even if that did not begin. */
export function endCommit(state: CommitState): void {
  Atomics.and(state, 0, ~phaseMask)
}
