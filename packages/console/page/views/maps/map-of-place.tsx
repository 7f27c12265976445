import { formatAddress } from '../../address.ts'
import type { MapContents, MapStatus } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount, formatCountOf } from '../../format.ts'
import { Content } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import { useWorker } from '../../worker/use-worker.ts'
import { Breadcrumbs } from './breadcrumbs.tsx'
import { CompareWith } from './compare-with.tsx'
import { Download } from './download.tsx'
import { loadStatus } from './load-status.ts'
import { MapContent } from './map-content.tsx'
import { ChunkBar, Digest, MapState } from './map-status.tsx'
import { PublishHint } from './publish-hint.tsx'

const uploadPollMs = 5_000
const openPollMs = 30_000

interface MapOfPlaceProps {
  buildId: string
  placeId: string
  /** The build whose map it is compared with; '' for none. */
  withBuildId: string
}

/** One map: its status, which is polled, and its content. */
export function MapOfPlace({ buildId, placeId, withBuildId }: MapOfPlaceProps) {
  const callWorker = useWorker()
  const status = useLoaded((api, signal) => loadStatus(api, { buildId, placeId }, signal), [buildId, placeId], pollMsOf)
  return (
    <>
      <Breadcrumbs buildId={buildId} placeId={placeId} />
      <h2>
        Map of place <Value text={placeId} />
      </h2>
      <Content loaded={status}>
        {(map) =>
          map ? (
            <Status {...{ map, withBuildId, callWorker }} />
          ) : (
            <div class="notice empty">
              <p>No map is published for this place and build.</p>
              <PublishHint buildId={buildId} placeId={placeId} />
            </div>
          )
        }
      </Content>
    </>
  )
}

/** A frozen, complete map does not change: it is not polled. */
function pollMsOf(map: MapStatus | null): number | undefined {
  if (!map || map.state === 'incomplete' || map.pending) return uploadPollMs
  return map.frozen ? undefined : openPollMs
}

function Status({ map, withBuildId, callWorker }: { map: MapStatus; withBuildId: string; callWorker: CallWorker }) {
  const { buildId, placeId, pending } = map
  const isComplete = map.state === 'complete'
  return (
    <>
      <div class="states line">
        <MapState map={map} />
        {map.frozenAt === null ? (
          <span class="badge open">open</span>
        ) : (
          <span class="badge frozen">
            frozen since <Time at={map.frozenAt} />
          </span>
        )}
        <a href={formatAddress(['where'], { build: buildId, place: placeId })}>Where it happens</a>
        {isComplete && <Download key={map.digest} map={map} callWorker={callWorker} />}
      </div>
      {isComplete && <CompareWith {...{ map, withBuildId, callWorker }} />}
      <Facts map={map} />
      {!isComplete && <ChunkBar contents={map} />}
      {pending && <Pending pending={pending} />}
      {isComplete && <MapContent key={map.digest} map={map} callWorker={callWorker} />}
    </>
  )
}

function Facts({ map: { size, chunks, contentType, publishedAt, digest } }: { map: MapStatus }) {
  return (
    <dl class="facts">
      <div title={formatCountOf(size, 'byte')}>
        <dt>Size</dt>
        <dd>{formatBytes(size)}</dd>
      </div>
      <div>
        <dt>Chunks</dt>
        <dd>{formatCount(chunks)}</dd>
      </div>
      <div>
        <dt>Content type</dt>
        <dd>
          <Value text={contentType} />
        </dd>
      </div>
      <div>
        <dt>Published</dt>
        <dd>{publishedAt === null ? 'not yet' : <Time at={publishedAt} />}</dd>
      </div>
      <div>
        <dt>Digest</dt>
        <dd>
          <Digest digest={digest} />
        </dd>
      </div>
    </dl>
  )
}

function Pending({ pending }: { pending: MapContents }) {
  return (
    <section class="pending" aria-labelledby="pending-title">
      <h2 id="pending-title">Pending replacement</h2>
      <p>
        {formatBytes(pending.size)} of <Value text={pending.contentType} />. The map below stays until the replacement
        is complete.
      </p>
      <p>
        <Digest digest={pending.digest} />
      </p>
      <ChunkBar contents={pending} />
    </section>
  )
}
