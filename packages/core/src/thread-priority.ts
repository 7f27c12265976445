import { getPriority, setPriority } from 'node:os'

/**
 * Lowers the priority of this thread below that of threads with requests to serve. Only on Linux, where each thread has
 * its own priority. Never raises it: an unprivileged process may not.
 */
export function lowerThreadPriority(niceness: number): void {
  if (process.platform === 'linux' && getPriority() < niceness) setPriority(niceness)
}
