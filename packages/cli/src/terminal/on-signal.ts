import { type Io, printMessage, type StopSignal, signalExitCodes } from '../io.ts'

/** The command was interrupted by a signal; an empty `advice` makes an empty message. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly exitCode: number

  constructor(signal: StopSignal, advice: string) {
    super(advice && `${signal}: ${advice}`)
    this.exitCode = signalExitCodes[signal]
  }
}

/**
 * Runs `work`. SIGINT and SIGTERM abort its signal with an {@link Interrupted} that carries `advice`; a second signal ends
 * the process immediately.
 */
export async function abortOnSignal<T>(
  io: Pick<Io, 'onSignal' | 'stderr' | 'end'>,
  advice: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const off = io.onSignal((name) => {
    const reason = new Interrupted(name, advice)
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
