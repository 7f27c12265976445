import type { Output } from '../io.ts'
import { formatBytes, formatCount } from './format.ts'

/** The progress of one phase. */
export interface Progress {
  /** The phase, in one word: `uploading`. */
  label: string
  done: number
  /** Null if unknown, as with a stream. */
  total: number | null
  /** The amounts, for people. */
  text: string
  /** Whether the start of the phase is logged. */
  isAnnounced: boolean
}

export interface ProgressDisplay {
  show(progress: Progress): void
  /** Restores the terminal. */
  end(): void
}

const lineIntervalMs = 5000

/** A bar on a terminal; elsewhere a line at the start of each announced phase, and then one every 5 seconds. */
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

/** Progress as lines of text; `now` is a clock in milliseconds. */
export function createProgressLines(stream: Pick<Output, 'write'>, now: () => number): ProgressDisplay {
  let announced: string | undefined
  let writtenAt = now()
  return {
    show({ label, text, isAnnounced }) {
      const isStart = isAnnounced && label !== announced
      if (!isStart && now() - writtenAt < lineIntervalMs) return
      if (isAnnounced) announced = label
      writtenAt = now()
      stream.write(`ingest: ${label} ${text}\n`)
    },
    end() {},
  }
}

/** The progress of reading events; `size` is the size of the file in bytes, null for a stream. */
export function toEventsProgress(
  label: string,
  { bytes, events, rejected }: { bytes: number; events: number; rejected: number },
  size: number | null,
): Progress {
  const read = size === null ? formatBytes(bytes) : `${formatBytes(bytes)} of ${formatBytes(size)}`
  const text = `${read}, ${formatCount(events, 'event')}${rejected > 0 ? `, ${rejected} rejected` : ''}`
  return { label, done: bytes, total: size, text, isAnnounced: false }
}
