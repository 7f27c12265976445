import type { Io, Output } from '../io.ts'

/** The progress of one phase. */
export interface Progress {
  /** The phase, in one word: `uploading`. */
  label: string
  done: number
  /** Null if unknown, as with a stream. */
  total: number | null
  /** The amounts, in words. */
  text: string
  /** Whether the start of the phase is logged. */
  isAnnounced: boolean
}

interface ProgressDisplay {
  show(progress: Progress): void
  /** Restores the terminal. */
  end(): void
}

const lineIntervalMs = 5000

/**
 * Shows the progress of `work` on standard error, unless `quiet`: as a bar on a terminal, otherwise as a line at the
 * start of each announced phase and one every 5 seconds.
 */
export async function withProgress<T>(
  { stderr }: Pick<Io, 'stderr'>,
  quiet: true | undefined,
  work: (show: (progress: Progress) => void) => Promise<T>,
): Promise<T> {
  if (quiet) return work(() => {})
  const display = await (stderr.isTTY
    ? createProgressBar(stderr)
    : createProgressLines(stderr, () => performance.now()))
  try {
    return await work(display.show)
  } finally {
    display.end()
  }
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

/** Shows progress as lines of text; `now` is a clock in milliseconds. */
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
