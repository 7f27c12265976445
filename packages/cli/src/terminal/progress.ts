import type { Output } from '../io.ts'
import { formatBytes, formatCount } from './format.ts'

/** How far a piece of work is. */
export interface Progress {
  /** What is being done, in one short word: `uploading`. */
  label: string
  done: number
  /** Null when nobody knows, as of a stream. */
  total: number | null
  /** The same, and more, for people. */
  text: string
  /** Whether a log hears of it as soon as it begins. */
  isAnnounced: boolean
}

/** Shows how far a piece of work is. */
export interface ProgressDisplay {
  show(progress: Progress): void
  /** Leaves the terminal as it was. */
  end(): void
}

/** How often somebody who reads a log hears of it. */
const lineIntervalMs = 5000

/** A bar on a terminal, and otherwise a line when something begins that is announced, and then one now and then. */
export async function createProgressDisplay(stream: Output): Promise<ProgressDisplay> {
  return stream.isTTY ? createProgressBar(stream) : createProgressLines(stream, () => performance.now())
}

async function createProgressBar(stream: Output): Promise<ProgressDisplay> {
  const { default: progressBars } = await import('cli-progress')
  const bar = new progressBars.SingleBar({
    stream,
    format: '{label} {bar} {text}',
    barCompleteChar: '█',
    barIncompleteChar: '░',
    barsize: 30,
    hideCursor: true,
    clearOnComplete: true,
  })
  let shown: string | undefined
  return {
    show({ label, done, total, text }) {
      const payload = { label: label.padEnd(9), text }
      if (label !== shown) bar.start(total || 1, 0, payload)
      shown = label
      bar.update(total === null ? 0 : done, payload)
    },
    end: () => bar.stop(),
  }
}

/** The same as lines of text, written at times of this clock, in milliseconds. */
export function createProgressLines(stream: Pick<Output, 'write'>, now: () => number): ProgressDisplay {
  let announced: string | undefined
  let writtenAt = now()
  return {
    show({ label, text, isAnnounced }) {
      const begins = isAnnounced && label !== announced
      if (!begins && now() - writtenAt < lineIntervalMs) return
      if (isAnnounced) announced = label
      writtenAt = now()
      stream.write(`ingest: ${label} ${text}\n`)
    },
    end() {},
  }
}

/** How far reading events is, for people. */
export function toEventsProgress(
  label: string,
  { bytes, events, rejected }: { bytes: number; events: number; rejected: number },
  /** Null for what is no file. */
  size: number | null,
): Progress {
  const read = size === null ? formatBytes(bytes) : `${formatBytes(bytes)} of ${formatBytes(size)}`
  const text = `${read}, ${formatCount(events, 'event')}${rejected > 0 ? `, ${rejected} rejected` : ''}`
  return { label, done: bytes, total: size, text, isAnnounced: false }
}
