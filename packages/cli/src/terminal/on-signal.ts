import { CommandFailure } from '../exit-code.ts'
import { type Io, printMessage, signalExitCodes } from '../io.ts'

/**
 * Runs `work`. SIGINT and SIGTERM abort its signal with the failure `interrupted`, whose message is `advice`, or empty.
 * A second signal ends the process immediately.
 */
export async function abortOnSignal<T>(
  io: Pick<Io, 'onSignal' | 'stderr' | 'end'>,
  advice: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const off = io.onSignal((name) => {
    const message = advice && `${name}: ${advice}`
    const exitCode = signalExitCodes[name]
    if (controller.signal.aborted) {
      if (message !== '') printMessage(io, message)
      io.end(exitCode)
    }
    controller.abort(new CommandFailure({ exitCode, code: 'interrupted', message, retryable: true }))
  })
  try {
    return await work(controller.signal)
  } finally {
    off()
  }
}
