import { getPriority, setPriority } from 'node:os'

/**
 * Gives this thread a lower priority than those that others wait for, on Linux, where each thread has one of its own. It
 * is never raised: a process that stands back already may not do that.
 */
export function lowerThreadPriority(niceness: number): void {
  if (process.platform === 'linux' && getPriority() < niceness) setPriority(niceness)
}
