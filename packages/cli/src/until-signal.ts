/** A signal has ended the work. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly exitCode: number

  constructor(signal: StopSignal, remedy: string) {
    super(remedy && `${signal}: ${remedy}`)
    this.exitCode = signalExitCodes[signal]
  }
}

type StopSignal = keyof typeof signalExitCodes

/** As shells report a process that a signal has ended. */
const signalExitCodes = { SIGINT: 130, SIGTERM: 143 } as const

/**
 * Does `work` until it is done, or until SIGINT or SIGTERM aborts the signal that it is given, with an
 * {@link Interrupted} that says `remedy`, or nothing where that is empty. A second one ends the process at once.
 */
export async function untilSignal<T>(remedy: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const onSignal = (name: NodeJS.Signals) => {
    const reason = new Interrupted(name as StopSignal, remedy)
    if (controller.signal.aborted) {
      if (reason.message !== '') process.stderr.write(`ingest: ${reason.message}\n`)
      process.exit(reason.exitCode)
    }
    controller.abort(reason)
  }
  const names = Object.keys(signalExitCodes) as StopSignal[]
  for (const name of names) process.on(name, onSignal)
  try {
    return await work(controller.signal)
  } finally {
    for (const name of names) process.off(name, onSignal)
  }
}
