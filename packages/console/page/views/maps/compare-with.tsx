import { replaceQuery } from '../../address.ts'
import type { MapStatus } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount, formatCountOf } from '../../format.ts'
import { BuildField } from '../../parts/build-field.tsx'
import { Content } from '../../parts/notice.tsx'
import { visibleText } from '../../visible-text.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import { type MapComparison, parsedBytesMax } from '../../worker/map-calls.ts'
import { isJsonType } from './file-name.ts'
import { loadStatus } from './load-status.ts'

interface CompareWithProps {
  map: MapStatus
  /** '' if none is chosen. */
  withBuildId: string
  callWorker: CallWorker
}

/** How many parts were added to and removed from the map of another build. */
export function CompareWith({ map, withBuildId, callWorker }: CompareWithProps) {
  return (
    <div class="controls">
      <BuildField
        label="Changes since build"
        value={withBuildId}
        none="no build"
        onChoose={(other) => replaceQuery({ with: other || undefined })}
      />
      {withBuildId !== '' && <Changes key={withBuildId} {...{ map, withBuildId, callWorker }} />}
    </div>
  )
}

function Changes({ map, withBuildId, callWorker }: CompareWithProps) {
  const { placeId, digest } = map
  const compared = useLoaded(
    async (api, signal) => {
      const before = await loadStatus(api, { buildId: withBuildId, placeId }, signal)
      if (before?.state !== 'complete') return 'It has no complete map of this place.'
      if (before.digest === digest) return 'It has the same bytes.'
      if ([before, map].some(({ contentType, size }) => !isJsonType(contentType) || size > parsedBytesMax)) {
        return `The bytes differ. Only JSON of up to ${formatBytes(parsedBytesMax)} is compared by its parts.`
      }
      return describe(await callWorker('compareMaps', { before, after: map }, { signal }), withBuildId)
    },
    [withBuildId, digest],
  )
  return <Content loaded={compared}>{(sentence) => <p role="status">{sentence}</p>}</Content>
}

function describe(comparison: MapComparison | undefined, withBuildId: string): string {
  if (!comparison) return 'The bytes differ, and one of the maps is not valid JSON.'
  const { before, after, added, removed, isCut } = comparison
  if (before + after === 0) return 'The bytes differ. Neither map has parts with positions and sizes.'
  const parts = `${formatCountOf(before, 'part')} in ${visibleText(withBuildId)}, ${formatCount(after)} now`
  const changes = `${formatCount(added)} added, ${formatCount(removed)} removed, by id, name or path`
  return `${parts}: ${changes}.${isCut ? ' Only the first 1,000,000 parts of a map are counted.' : ''}`
}
