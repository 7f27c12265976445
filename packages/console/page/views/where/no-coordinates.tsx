import { formatCountOf } from '../../format.ts'
import { lookedFor } from '../../heat/pairs.ts'
import { Notice } from '../../parts/notice.tsx'
import type { ReadProgress } from '../../worker/where-calls.ts'
import { type PointerChoice, PointerForm } from './filters.tsx'

/** Lists the pointers that were tried, and the members of the first event. */
export function NoCoordinates({
  progress,
  isReading,
  onChoose,
}: {
  progress: ReadProgress
  isReading: boolean
  onChoose(pair: PointerChoice): void
}) {
  return (
    <>
      <Notice kind="empty">
        {formatCountOf(progress.events, 'event')} read{isReading && ' so far'}, none with numeric coordinates. Looked
        for: {lookedFor}.
      </Notice>
      <PointerForm pointers={progress.pointers} chosen={{ across: '', down: '' }} onChoose={onChoose} />
      <h2>Members of the first event</h2>
      <ul class="members">
        {progress.example.map(({ pointer, kind }) => (
          <li key={pointer}>
            <code>{pointer}</code> <span class="muted">{kind}</span>
          </li>
        ))}
      </ul>
    </>
  )
}
