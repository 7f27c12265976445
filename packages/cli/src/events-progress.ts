import { formatBytes } from './format-bytes.ts'
import { formatCount } from './format-count.ts'
import type { Progress } from './show-progress.ts'

/** How far reading events is, for people. */
export function eventsProgress(
  label: string,
  { bytes, events, rejected }: { bytes: number; events: number; rejected: number },
  /** Null for what is no file. */
  size: number | null,
): Progress {
  const read = size === null ? formatBytes(bytes) : `${formatBytes(bytes)} of ${formatBytes(size)}`
  const text = `${read}, ${formatCount(events, 'event')}${rejected > 0 ? `, ${rejected} rejected` : ''}`
  return { label, done: bytes, total: size, text, isAnnounced: false }
}
