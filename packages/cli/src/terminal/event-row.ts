import { styleText } from 'node:util'
import type { StoredEvent } from '@ingest/core'
import { escapeControlCharacters } from './format.ts'

export interface RowStyle {
  /** Width of the terminal. */
  columns: number
  hasColors: boolean
}

/** Minimum width of each column, so that most rows are aligned. */
const widths = { type: 16, buildId: 14, playerId: 12 }

/** One row of at most `columns`: time of receipt, type, build, player, and as much of the other fields as fits. */
export function formatEventRow({ receivedAt, bytes }: StoredEvent, { columns, hasColors }: RowStyle): string {
  const { projectId: _, type, buildId, playerId, ...rest } = JSON.parse(Buffer.from(bytes).toString())
  const known = { type, buildId, playerId }
  const cells = (Object.keys(widths) as (keyof typeof widths)[]).map((name) =>
    pad(escapeControlCharacters(String(known[name] ?? '-')), widths[name]),
  )
  const [time, kind, ...others] = [formatClock(receivedAt), ...cells]
  const text = truncate([time, kind, ...others, escapeControlCharacters(JSON.stringify(rest))].join('  '), columns)
  if (!hasColors) return text
  const kindAt = time.length + 2
  const restAt = kindAt + (kind?.length ?? 0)
  const [head, bold] = [styled('dim', text.slice(0, kindAt)), styled('bold', text.slice(kindAt, restAt))]
  return `${head}${bold}${text.slice(restAt)}`
}

/** The local date of a time in milliseconds since 1970, such as 2026-11-20. Rows show only the time of day. */
export function formatDay(time: number): string {
  const date = new Date(time)
  return `${date.getFullYear()}-${twoDigits(date.getMonth() + 1)}-${twoDigits(date.getDate())}`
}

function styled(style: 'dim' | 'bold', text: string): string {
  return styleText(style, text, { validateStream: false })
}

/** The local time of day. */
function formatClock(time: number): string {
  const date = new Date(time)
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits).join(':')
  return `${clock}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

function twoDigits(number: number): string {
  return String(number).padStart(2, '0')
}

function pad(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - displayWidth(text)))
}

/** Cuts text to `columns`, with an ellipsis at the end. */
function truncate(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text
  let width = 1
  let kept = ''
  for (const character of text) {
    width += displayWidth(character)
    if (width > columns) break
    kept += character
  }
  return `${kept}…`
}

// an approximation of what most terminals draw in two columns
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u
const combining = /\p{M}/u

function displayWidth(text: string): number {
  let width = 0
  for (const character of text) width += combining.test(character) ? 0 : wide.test(character) ? 2 : 1
  return width
}
