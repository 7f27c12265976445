import { formatAddress } from '../../address.ts'
import type { MapStatus } from '../../api/bodies.ts'
import { type Loaded, useLoaded } from '../../api/use-api.ts'
import { formatBytes, formatCount } from '../../format.ts'
import { Content } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { ChunkBar, Digest, MapState } from './map-contents.tsx'
import { MapContent } from './map-content.tsx'
import { PublishHint } from './publish-hint.tsx'
import { Trail } from './trail.tsx'

const uploadPollMs = 5_000
const openPollMs = 30_000

/** One map: its status, kept up to date, and its content. */
export function MapOfPlace({ buildId, placeId }: { buildId: string; placeId: string }) {
  const status = useLoaded(
    (api, signal) => api.json<MapStatus>('v1/maps', { query: { buildId, placeId }, signal }),
    [buildId, placeId],
    pollMsOf,
  )
  return (
    <>
      <Trail buildId={buildId} placeId={placeId} />
      <h2>Map of place {placeId}</h2>
      {isMissing(status) ? (
        <div class="notice empty">
          <p>No map is published for this place and build.</p>
          <PublishHint buildId={buildId} placeId={placeId} />
        </div>
      ) : (
        <Content loaded={status}>{(map) => <Status map={map} />}</Content>
      )}
    </>
  )
}

function isMissing({ error }: Loaded<MapStatus>): boolean {
  return error?.problem.code === 'map-not-found'
}

/** A frozen map that is complete stays as it is. */
function pollMsOf({ state, pending, frozen }: MapStatus): number | undefined {
  if (state === 'incomplete' || pending) return uploadPollMs
  return frozen ? undefined : openPollMs
}

function Status({ map }: { map: MapStatus }) {
  const { buildId, placeId, pending } = map
  return (
    <>
      <p class="states">
        <MapState map={map} />
        {map.frozenAt === null ? (
          <span class="badge open">open</span>
        ) : (
          <span class="badge frozen">
            frozen since <Time at={map.frozenAt} />
          </span>
        )}
        <a href={formatAddress(['where'], { build: buildId, place: placeId })}>Where it happens</a>
      </p>
      <dl class="figures">
        <Figure title="Size" text={formatBytes(map.size)} exact={`${formatCount(map.size)} bytes`} />
        <Figure title="Chunks" text={formatCount(map.chunks)} />
        <Figure title="Content type" text={map.contentType} />
        <div>
          <dt>Published</dt>
          <dd>{map.publishedAt === null ? 'not yet' : <Time at={map.publishedAt} />}</dd>
        </div>
        <div class="wide">
          <dt>Digest</dt>
          <dd>
            <Digest digest={map.digest} />
          </dd>
        </div>
      </dl>
      {map.state === 'incomplete' && <ChunkBar contents={map} />}
      {pending && (
        <section class="pending" aria-labelledby="pending-title">
          <h2 id="pending-title">Pending replacement</h2>
          <p>
            {formatBytes(pending.size)} of {pending.contentType}. The map below stays readable until it is complete.
          </p>
          <p>
            <Digest digest={pending.digest} />
          </p>
          <ChunkBar contents={pending} />
        </section>
      )}
      {map.state === 'complete' && <MapContent map={map} />}
    </>
  )
}

function Figure({ title, text, exact }: { title: string; text: string; exact?: string }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd title={exact}>{text}</dd>
    </div>
  )
}
