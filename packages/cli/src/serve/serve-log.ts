import type { Logger } from 'pino'
import { hasColors, type Io } from '../io.ts'

export type Log = Logger

/** Further lines are dropped while this much waits for the reader of the log. */
const backlogBytesMax = 4 * 2 ** 20

/** A log on standard error: text on a terminal, otherwise pino's lines of JSON. */
export async function createLog({ stderr, env }: Io, level: string): Promise<Log> {
  const { pino } = await import('pino')
  const format = stderr.isTTY ? await createFormat(hasColors(stderr, env)) : String
  let dropped = 0
  const write = (line: string) => {
    if ((stderr.writableLength ?? 0) > backlogBytesMax) {
      dropped++
      return
    }
    stderr.write(format(line))
    if (dropped === 0) return
    const lines = dropped
    dropped = 0
    log.warn({ lines }, 'lines of the log were dropped: its reader was too slow')
  }
  const log = pino({ level, base: null }, { write })
  return log
}

async function createFormat(colorize: boolean): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty')
  return prettyFactory({ colorize, singleLine: true, translateTime: 'SYS:HH:MM:ss' })
}
