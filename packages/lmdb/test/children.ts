import { readdirSync, readFileSync } from 'node:fs'

/** Why a test cannot find the processes that this one has started. */
export const noChildren = process.platform !== 'linux' && 'needs /proc to find the process of a job'

/** The ids of the processes that this one has started. */
export function children(): number[] {
  return readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ').slice(0, -1).map(Number)
}

/** Ends a process from outside. Returns when all its threads have ended, before this process can notice. */
export function killAtOnce(pid: number): void {
  process.kill(pid, 'SIGKILL')
  while (readdirSync(`/proc/${pid}/task`).length > 1 || !isZombie(pid)) {}
}

function isZombie(pid: number): boolean {
  return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
}
