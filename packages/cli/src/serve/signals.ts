import { type Io, type StopSignal, signalExitCodes } from '../io.ts'

/** Resolves `first` with the first SIGTERM or SIGINT. Later SIGTERMs are ignored; a second SIGINT ends the process. */
export function listenForSignals(io: Pick<Io, 'onSignal' | 'end'>): { first: Promise<StopSignal>; off: () => void } {
  let off = () => {}
  let interrupts = 0
  const first = new Promise<StopSignal>((resolve) => {
    off = io.onSignal((signal) => {
      resolve(signal)
      if (signal === 'SIGINT' && ++interrupts > 1) io.end(signalExitCodes.SIGINT)
    })
  })
  return { first, off }
}
