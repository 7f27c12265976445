import { styleText } from 'node:util'
import type { Logger } from 'pino'
import { hasColors, type Io } from '../io.ts'
import { escapeControlCharacters } from '../terminal/format.ts'

export type Log = Logger

export const logFormats = ['auto', 'json', 'text'] as const
export type LogFormat = (typeof logFormats)[number]

export interface LogOptions {
  level: string
  format: LogFormat
}

/** A log on standard error, as pino's lines of JSON or as text for people. */
export async function createLog({ stderr, env }: Io, { level, format }: LogOptions): Promise<Log> {
  const { pino } = await import('pino')
  const lineOf = logsText({ stderr }, format)
    ? (line: string) => formatRecord(JSON.parse(line), hasColors(stderr, env))
    : String
  return pino({ level, base: null }, { write: (line: string) => void stderr.write(lineOf(line)) })
}

/** Whether the log is text for people. */
export function logsText({ stderr }: Pick<Io, 'stderr'>, format: LogFormat): boolean {
  return format === 'text' || (format === 'auto' && stderr.isTTY === true)
}

type Style = Parameters<typeof styleText>[0]

/** The prefix and the style of each level but info. */
const levels: Readonly<Record<number, [name: string, style: Style]>> = {
  20: ['debug: ', 'dim'],
  40: ['warning: ', 'yellow'],
  50: ['error: ', 'red'],
  60: ['fatal: ', 'red'],
}

/** A record as a line of text, `17:51:00 drained accepted=3 duplicates=1`, and the stack of its error. */
export function formatRecord(record: Record<string, unknown>, hasColor: boolean): string {
  const styled = (style: Style, text: string) =>
    hasColor && text !== '' ? styleText(style, text, { validateStream: false }) : text
  const { level, time, msg, err, ...members } = record
  const [name, style] = levels[Number(level)] ?? ['', 'bold']
  const details = Object.entries(members).map(
    ([key, value]) => ` ${styled('dim', `${escapeControlCharacters(key)}=`)}${formatValue(value)}`,
  )
  const clock = new Date(Number(time)).toTimeString().slice(0, 8)
  return `${styled('dim', clock)} ${styled(style, name + escapeControlCharacters(String(msg)))}${details.join('')}\n${formatStack(err)}`
}

function formatValue(value: unknown): string {
  return escapeControlCharacters(typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value))
}

/** The indented stack of a serialized error. */
function formatStack(err: unknown): string {
  if (typeof err !== 'object' || err === null || !('stack' in err)) return ''
  return String(err.stack)
    .split('\n')
    .map((line) => `    ${escapeControlCharacters(line)}\n`)
    .join('')
}
