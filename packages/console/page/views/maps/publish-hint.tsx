import { quoteForShell } from '../../shell-quote.ts'

/** How a map is published. */
export function PublishHint({ buildId = '2026.11.20', placeId = '920587237' }: { buildId?: string; placeId?: string }) {
  return (
    <>
      <p>Publish a map, with a key that has the scope maps:write:</p>
      <pre>
        ingest publish-map dist/map.json --place {quoteForShell(placeId)} --build {quoteForShell(buildId)}
      </pre>
    </>
  )
}
