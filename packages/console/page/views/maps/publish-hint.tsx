import { Preformatted } from '../../parts/value.tsx'
import { quoteForShell } from '../../shell-quote.ts'

/** Explains how to publish a map. */
export function PublishHint({ buildId = '2026.11.20', placeId = '920587237' }: { buildId?: string; placeId?: string }) {
  const command = `ingest publish-map dist/map.json --place ${quoteForShell(placeId)} --build ${quoteForShell(buildId)}`
  return (
    <>
      <p>Publish a map, with a key that has the scope maps:write:</p>
      <Preformatted text={command} />
    </>
  )
}
