import { type Io, type StopSignal, printMessage, signalExitCodes } from '../io.ts'

/** A signal has ended the work. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly exitCode: number

  constructor(signal: StopSignal, remedy: string) {
    super(remedy && `${signal}: ${remedy}`)
    this.exitCode = signalExitCodes[signal]
  }
}

/**
 * Does `work` until it is done, or until SIGINT or SIGTERM aborts the signal that it is given, with an
 * {@link Interrupted} that says `remedy`, or nothing where that is empty. A second one ends the process at once.
 */
export async function abortOnSignal<T>(
  io: Pick<Io, 'onSignal' | 'stderr' | 'end'>,
  remedy: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const off = io.onSignal((name) => {
    const reason = new Interrupted(name, remedy)
    if (controller.signal.aborted) {
      if (reason.message !== '') printMessage(io, reason.message)
      io.end(reason.exitCode)
    }
    controller.abort(reason)
  })
  try {
    return await work(controller.signal)
  } finally {
    off()
  }
}
