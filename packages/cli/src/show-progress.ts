import type { UploadProgress } from '@ingest/client'
import { formatBytes } from './format-bytes.ts'

/** Shows how far an upload is. */
export interface ProgressDisplay {
  show(progress: UploadProgress): void
  /** Leaves the terminal as it was. */
  end(): void
}

/** How often somebody who reads a log hears of it. */
const lineEveryMs = 5000

const labels = { spool: 'reading', hash: 'hashing', upload: 'uploading' } as const

/** A bar on a terminal, and otherwise a line when sending begins and then one now and then. */
export async function showProgress(stream: NodeJS.WriteStream = process.stderr): Promise<ProgressDisplay> {
  return stream.isTTY ? bar(stream) : lines(stream, () => performance.now())
}

async function bar(stream: NodeJS.WriteStream): Promise<ProgressDisplay> {
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
  let phase: UploadProgress['phase'] | undefined
  return {
    show(progress) {
      const payload = { label: labels[progress.phase].padEnd(9), text: textOf(progress) }
      // how long a stream is, nobody knows
      const isOpen = progress.bytesTotal === null
      if (progress.phase !== phase) bar.start(progress.bytesTotal || 1, 0, payload)
      phase = progress.phase
      bar.update(isOpen ? 0 : progress.bytesDone, payload)
    },
    end: () => bar.stop(),
  }
}

/** The same as lines of text, written at times of this clock, in milliseconds. */
export function lines(stream: Pick<NodeJS.WriteStream, 'write'>, now: () => number): ProgressDisplay {
  let isUploading = false
  let writtenAt = now()
  return {
    show(progress) {
      const begins = progress.phase === 'upload' && !isUploading
      if (!begins && now() - writtenAt < lineEveryMs) return
      isUploading = progress.phase === 'upload'
      writtenAt = now()
      stream.write(`ingest: ${labels[progress.phase]} ${textOf(progress)}\n`)
    },
    end() {},
  }
}

function textOf({ bytesDone, bytesTotal, chunksDone, chunksTotal }: UploadProgress): string {
  const bytes = bytesTotal === null ? formatBytes(bytesDone) : `${formatBytes(bytesDone)} of ${formatBytes(bytesTotal)}`
  return chunksTotal === null ? bytes : `${bytes}, ${chunksDone} of ${chunksTotal} chunks`
}
