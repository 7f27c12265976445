import { formatAddress } from '../../address.ts'

/** Where a build or a map stands, with links to what is above it. */
export function Trail({ buildId, placeId }: { buildId: string; placeId?: string }) {
  const isBuild = placeId === undefined
  return (
    <nav class="trail" aria-label="Builds and maps">
      <ol>
        <li>
          <a href={formatAddress(['maps'])}>Builds</a>
        </li>
        <li>
          {isBuild ? (
            <span aria-current="page">{buildId}</span>
          ) : (
            <a href={formatAddress(['maps', buildId])}>{buildId}</a>
          )}
        </li>
        {!isBuild && (
          <li>
            <span aria-current="page">{placeId}</span>
          </li>
        )}
      </ol>
    </nav>
  )
}
