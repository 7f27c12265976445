/** Ends this process without an orderly exit. */
export function killProcess(): never {
  process.kill(process.pid, 'SIGKILL')
  // process 1 of a container does not receive its own SIGKILL
  process.abort()
}
