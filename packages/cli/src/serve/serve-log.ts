import { styleText } from 'node:util'
import type { Logger } from 'pino'
import { hasColors, type Io } from '../io.ts'
import { escapeControlCharacters } from '../terminal/format.ts'

export type Log = Logger

export const logFormats = ['auto', 'json', 'text'] as const
export type LogFormat = (typeof logFormats)[number]

/** Further lines are dropped while this much waits for the reader of the log. */
const backlogBytesMax = 4 * 2 ** 20

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
  let dropped = 0
  const write = (line: string) => {
    if ((stderr.writableLength ?? 0) > backlogBytesMax) dropped++
    else if (dropped === 0) stderr.write(lineOf(line))
    else {
      const lines = dropped
      dropped = 0
      stderr.write(lineOf(line))
      log.warn({ lines }, 'lines of the log were dropped: its reader was too slow')
    }
  }
  const log = pino({ level, base: null, serializers: { err: serializeError } }, { write })
  return log
}

/** Whether the log is text for people. */
export function logsText({ stderr }: Pick<Io, 'stderr'>, format: LogFormat): boolean {
  return format === 'text' || (format === 'auto' && stderr.isTTY === true)
}

/** The most causes of one error that are logged. */
const causesMax = 8

interface SerializedError {
  code?: string
  message: string
  stack?: string
}

/**
 * An error with its causes, each once: pino's own serializer repeats them in message, stack and list. A refusal explains
 * itself, so that an outage is a line for each error; everything else has its stack.
 */
export function serializeError(error: unknown): SerializedError {
  const chain = causesOf(error)
  const messages: string[] = []
  for (const { message } of chain) {
    const text = message.replace(/\.$/, '')
    if (text !== '' && !messages.some((earlier) => earlier.includes(text))) messages.push(text)
  }
  const [first] = chain
  const code = first && 'code' in first && typeof first.code === 'string' ? first.code : undefined
  const serialized = { ...(code !== undefined && { code }), message: messages.join(': ') || String(error) }
  if (first === undefined || first.name === 'IngestError') return serialized
  return { ...serialized, stack: chain.map(({ stack }) => stack).join('\ncaused by: ') }
}

/** The error, its cause, the cause of that and so on. Of several errors at once, the first stands for all. */
function causesOf(error: unknown): Error[] {
  const chain: Error[] = []
  let next = error
  while (next instanceof Error && !chain.includes(next) && chain.length < causesMax) {
    chain.push(next)
    next = next.cause ?? (next instanceof AggregateError ? next.errors[0] : undefined)
  }
  return chain
}

type Style = Parameters<typeof styleText>[0]

/** The prefix and the style of each level but info. */
const levels: Readonly<Record<number, [name: string, style: Style]>> = {
  20: ['debug: ', 'dim'],
  40: ['warning: ', 'yellow'],
  50: ['error: ', 'red'],
  60: ['fatal: ', 'red'],
}

/** A record as a line of text, `17:51:00 drained accepted=3 duplicates=1`, and its error: a message, or a stack below it. */
export function formatRecord(record: Record<string, unknown>, hasColor: boolean): string {
  const styled = (style: Style, text: string) =>
    hasColor && text !== '' ? styleText(style, text, { validateStream: false }) : text
  const { level, time, msg, err, ...members } = record
  const [name, style] = levels[Number(level)] ?? ['', 'bold']
  const details = Object.entries(members).map(
    ([key, value]) => ` ${styled('dim', `${escapeControlCharacters(key)}=`)}${formatValue(value)}`,
  )
  const clock = new Date(Number(time)).toTimeString().slice(0, 8)
  const message = escapeControlCharacters(`${name}${msg}${formatMessage(err)}`)
  return `${styled('dim', clock)} ${styled(style, message)}${details.join('')}\n${formatStack(err)}`
}

function formatValue(value: unknown): string {
  return escapeControlCharacters(typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value))
}

/** The message of a serialized error without a stack, which would contain it. */
function formatMessage(err: unknown): string {
  if (typeof err !== 'object' || err === null || 'stack' in err || !('message' in err)) return ''
  return `: ${err.message}`
}

/** The indented stack of a serialized error. */
function formatStack(err: unknown): string {
  if (typeof err !== 'object' || err === null || !('stack' in err)) return ''
  return String(err.stack)
    .split('\n')
    .map((line) => `    ${escapeControlCharacters(line)}\n`)
    .join('')
}
