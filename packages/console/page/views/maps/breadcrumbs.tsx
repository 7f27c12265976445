import { formatAddress } from '../../address.ts'
import { Value } from '../../parts/value.tsx'

/** Links to the builds, a build and one of its maps; the last one is the current page. */
export function Breadcrumbs({ buildId, placeId }: { buildId: string; placeId?: string }) {
  const isBuild = placeId === undefined
  return (
    <nav class="breadcrumbs" aria-label="Builds and maps">
      <ol>
        <li>
          <a href={formatAddress(['maps'])}>Builds</a>
        </li>
        <li>
          {isBuild ? (
            <span aria-current="page">
              <Value text={buildId} />
            </span>
          ) : (
            <a href={formatAddress(['maps', buildId])}>
              <Value text={buildId} />
            </a>
          )}
        </li>
        {!isBuild && (
          <li>
            <span aria-current="page">
              <Value text={placeId} />
            </span>
          </li>
        )}
      </ol>
    </nav>
  )
}
