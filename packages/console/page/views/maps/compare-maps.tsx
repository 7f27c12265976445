import { useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount, formatCountOf } from '../../format.ts'
import type { ChangeKind } from '../../heat/compare-parts.ts'
import type { Box } from '../../heat/viewport.ts'
import { Content, Notice } from '../../parts/notice.tsx'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import { type ChangedPart, changesPerPage, type MapComparison, type PartState } from '../../worker/compare-calls.ts'
import { parsedBytesMax } from '../../worker/map-calls.ts'
import type { LoadProgress } from '../../worker/read-body.ts'
import { useWorker } from '../../worker/use-worker.ts'
import { Breadcrumbs } from './breadcrumbs.tsx'
import { CompareWith } from './compare-with.tsx'
import { ComparisonPicture } from './comparison-picture.tsx'
import { LoadBar } from './download.tsx'
import { isJsonType } from './file-name.ts'
import { loadStatus } from './map-of-place.tsx'
import { Digest } from './map-status.tsx'

export interface CompareMapsProps {
  buildId: string
  placeId: string
  /** The earlier build to compare with. */
  withBuildId: string
}

/** The changes to the map of a place from one build to another. */
export function CompareMaps({ buildId, placeId, withBuildId }: CompareMapsProps) {
  const maps = useLoaded(
    (api, signal) =>
      Promise.all([withBuildId, buildId].map((each) => loadStatus(api, { buildId: each, placeId }, signal))),
    [buildId, placeId, withBuildId],
  )
  return (
    <>
      <Breadcrumbs buildId={buildId} placeId={placeId} />
      <h2>
        Map of place <Value text={placeId} />: from <Value text={withBuildId} /> to <Value text={buildId} />
      </h2>
      <CompareWith {...{ buildId, placeId, withBuildId }} />
      <Content loaded={maps}>
        {([before, after]) => <TwoMaps before={before ?? null} after={after ?? null} {...{ buildId, withBuildId }} />}
      </Content>
    </>
  )
}

interface TwoMapsProps {
  before: MapStatus | null
  after: MapStatus | null
  buildId: string
  withBuildId: string
}

function TwoMaps({ before, after, buildId, withBuildId }: TwoMapsProps) {
  const missing = [
    [before, withBuildId],
    [after, buildId],
  ].find(([map]) => (map as MapStatus | null)?.state !== 'complete')
  if (!before || !after || missing) {
    return (
      <Notice kind="empty">
        The build <Value text={String(missing?.[1])} /> has no complete map of this place.
      </Notice>
    )
  }
  const isSame = before.digest === after.digest
  const isCompared = [before, after].every((map) => isJsonType(map.contentType) && map.size <= parsedBytesMax)
  return (
    <>
      <dl class="facts">
        {[before, after].map((map) => (
          <div key={map.buildId}>
            <dt>
              <Value text={map.buildId} />
            </dt>
            <dd>
              {formatBytes(map.size)}, <Value text={map.contentType} />
            </dd>
            <dd>
              <Digest digest={map.digest} />
            </dd>
          </div>
        ))}
      </dl>
      {isSame && <Notice kind="empty">Both builds have the same bytes.</Notice>}
      {!isSame && !isCompared && (
        <Notice kind="empty">
          The maps differ. Only JSON of up to {formatBytes(parsedBytesMax)} is compared by its parts.
        </Notice>
      )}
      {!isSame && isCompared && <Comparison key={`${before.digest} ${after.digest}`} {...{ before, after }} />}
    </>
  )
}

function Comparison({ before, after }: { before: MapStatus; after: MapStatus }) {
  const call = useWorker()
  const [progress, setProgress] = useState<LoadProgress>()
  const compared = useLoaded(
    async (_api, signal) => (await call('compareMaps', { before, after }, { signal, onProgress: setProgress })) ?? null,
    [before.digest, after.digest],
  )
  if (compared.data === undefined && !compared.error && progress) {
    return <LoadBar progress={progress} what="Loading the maps" />
  }
  return (
    <Content loaded={compared}>
      {(comparison) => {
        if (!comparison) return <Notice kind="failed">The maps differ, and one of them is not valid JSON.</Notice>
        if (comparison.before + comparison.after === 0) {
          return <Notice kind="empty">The maps differ, and have no parts with positions and sizes to compare.</Notice>
        }
        return <Changes comparison={comparison} call={call} />
      }}
    </Content>
  )
}

const kinds = ['added', 'removed', 'moved', 'changed'] as const

function Changes({ comparison, call }: { comparison: MapComparison; call: CallWorker }) {
  const [kind, setKind] = useState<ChangeKind>()
  const [focus, setFocus] = useState<Box>()
  const { before, after, counts, isCut } = comparison
  const total = kinds.reduce((sum, kind) => sum + counts[kind], 0)
  return (
    <>
      <p>
        {formatCountOf(before, 'part')} before, {formatCount(after)} after: {formatCount(counts.same)} are the same.
        {isCut && ' Only the first 1,000,000 parts of a map are compared.'}
      </p>
      <fieldset class="change-kinds line">
        <legend class="muted">Changes</legend>
        {[undefined, ...kinds].map((each) => (
          <button key={each} type="button" aria-pressed={kind === each} onClick={() => setKind(each)}>
            <span class={`change ${each ?? ''}`}>{each ?? 'all'}</span>{' '}
            <span class="muted">{formatCount(each ? counts[each] : total)}</span>
          </button>
        ))}
      </fieldset>
      {comparison.box && <ComparisonPicture {...{ call, box: comparison.box, focus }} />}
      {total === 0 ? (
        <Notice kind="empty">No part differs: the maps differ in something else.</Notice>
      ) : (
        <ChangeList
          key={kind}
          {...{ call, kind, count: kind ? counts[kind] : total }}
          onShow={(box) => {
            setFocus(box && { ...box })
            document.querySelector('.map-comparison')?.scrollIntoView({ block: 'nearest' })
          }}
        />
      )}
    </>
  )
}

interface ChangeListProps {
  call: CallWorker
  kind: ChangeKind | undefined
  count: number
  onShow(box: Box | undefined): void
}

function ChangeList({ call, kind, count, onShow }: ChangeListProps) {
  const [from, setFrom] = useState(0)
  const loaded = useLoaded(async () => call('listChanges', { kind, from }), [from])
  return (
    <Content loaded={loaded}>
      {(changes) => (
        <>
          <div class="scroll">
            <table class="paged changes">
              <caption>
                {formatCount(from + 1)} to {formatCount(from + changes.length)} of {formatCount(count)}
              </caption>
              <thead>
                <tr>
                  {['Part', 'Change', 'Before', 'After'].map((title) => (
                    <th key={title} scope="col">
                      {title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {changes.map((change, index) => (
                  // parts may share a key
                  <ChangeRow key={index} change={change} onShow={onShow} />
                ))}
              </tbody>
            </table>
          </div>
          {count > changesPerPage && (
            <p class="line">
              <button type="button" disabled={from === 0} onClick={() => setFrom(from - changesPerPage)}>
                Previous page
              </button>
              <button
                type="button"
                disabled={from + changesPerPage >= count}
                onClick={() => setFrom(from + changesPerPage)}
              >
                Next page
              </button>
            </p>
          )}
        </>
      )}
    </Content>
  )
}

function ChangeRow({
  change: { kind, key, before, after, box },
  onShow,
}: { change: ChangedPart } & Pick<ChangeListProps, 'onShow'>) {
  return (
    <tr>
      <td>
        <button type="button" class="link" title="Show it in the picture" onClick={() => onShow(box)}>
          <Value text={key} />
        </button>
      </td>
      <td data-label="Change">
        <span class={`change ${kind}`}>{kind}</span>
      </td>
      <td data-label="Before">{before ? <State state={before} /> : '–'}</td>
      <td data-label="After">{after ? <State state={after} /> : '–'}</td>
    </tr>
  )
}

function State({ state: { position, size, others } }: { state: PartState }) {
  return (
    <>
      at {formatVector(position)}, size {formatVector(size)}
      {others && (
        <>
          <br />
          <code>
            <Value text={others} />
          </code>
        </>
      )}
    </>
  )
}

const decimal = new Intl.NumberFormat('en-US', { maximumFractionDigits: 3, useGrouping: false })

function formatVector(vector: readonly number[]): string {
  return vector.map((each) => decimal.format(each)).join(' ')
}
