import { formatAddress } from '../../address.ts'
import type { MapPage, MapStatus } from '../../api/bodies.ts'
import { formatBytes } from '../../format.ts'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import { Breadcrumbs } from './breadcrumbs.tsx'
import { MapState } from './map-status.tsx'
import { PagedTable } from './paged-table.tsx'
import { PublishHint } from './publish-hint.tsx'

/** The maps of one build. */
export function BuildMaps({ buildId }: { buildId: string }) {
  return (
    <>
      <Breadcrumbs buildId={buildId} />
      <h2>
        Maps of build <Value text={buildId} />
      </h2>
      <p>
        <a href={formatAddress(['where'], { build: buildId })}>Where it happens</a>
      </p>
      <PagedTable
        caption="Maps by place"
        columns={['Place', 'State', { title: 'Size', isNumber: true }, 'Content type', 'Published', 'Frozen']}
        load={async (cursor, api, signal) => {
          const query = { buildId, limit: 100, cursor }
          const { maps, next } = await api.json<MapPage>('v1/maps', { query, signal })
          return { rows: maps, next }
        }}
        empty={
          <>
            <p>No map is published for this build.</p>
            <PublishHint buildId={buildId} />
          </>
        }
      >
        {(map) => <MapRow key={map.placeId} map={map} />}
      </PagedTable>
    </>
  )
}

function MapRow({ map }: { map: MapStatus }) {
  const { buildId, placeId, size, contentType, publishedAt, frozenAt } = map
  return (
    <tr>
      <td>
        <a href={formatAddress(['maps', buildId], { place: placeId })}>
          <Value text={placeId} />
        </a>
      </td>
      <td data-label="State">
        <MapState map={map} />
      </td>
      <td data-label="Size" class="number">
        {formatBytes(size)}
      </td>
      <td data-label="Content type">
        <Value text={contentType} />
      </td>
      <td data-label="Published">{publishedAt === null ? '–' : <Time at={publishedAt} />}</td>
      <td data-label="Frozen">{frozenAt === null ? <span class="badge open">open</span> : <Time at={frozenAt} />}</td>
    </tr>
  )
}
