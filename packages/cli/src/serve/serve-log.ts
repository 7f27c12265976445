import type { Logger } from 'pino'
import { hasColors, type Io } from '../io.ts'

export type Log = Logger

/** While this many bytes wait for the reader of the log, further lines are dropped. */
const backlogBytesMax = 4 * 2 ** 20

export const logFormats = ['text', 'json', 'pino'] as const

/** `json` has level names and ISO times, which log stores parse without configuration; `pino` has numbers for both. */
export type LogFormat = (typeof logFormats)[number]

export interface LogOptions {
  level: string
  /** Default: text on a terminal, otherwise `json`. */
  format?: LogFormat | undefined
}

/** A log on standard error. */
export async function createLog({ stderr, env }: Io, { level, format }: LogOptions): Promise<Log> {
  const { pino, stdSerializers, stdTimeFunctions } = await import('pino')
  const lineFormat = format ?? (stderr.isTTY ? 'text' : 'json')
  const toOutput = lineFormat === 'text' ? await createFormat(hasColors(stderr, env)) : String
  let dropped = 0
  const write = (line: string) => {
    if ((stderr.writableLength ?? 0) > backlogBytesMax) {
      dropped++
      return
    }
    stderr.write(toOutput(line))
    if (dropped === 0) return
    const lines = dropped
    dropped = 0
    log.warn({ lines }, 'lines of the log were dropped: its reader was too slow')
  }
  const names = { formatters: { level: (name: string) => ({ level: name }) }, timestamp: stdTimeFunctions.isoTime }
  // the default serializer would append the message of a cause to one that quotes it
  const serializers = { err: stdSerializers.errWithCause }
  const log = pino({ level, base: null, serializers, ...(lineFormat === 'json' && names) }, { write })
  return log
}

async function createFormat(colorize: boolean): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty')
  return prettyFactory({ colorize, singleLine: true, translateTime: 'SYS:HH:MM:ss' })
}
