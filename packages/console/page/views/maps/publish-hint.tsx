/** How a map is published. */
export function PublishHint({ buildId = '2026.11.20', placeId = '920587237' }: { buildId?: string; placeId?: string }) {
  return (
    <>
      <p>Publish a map, with a key that has the scope maps:write:</p>
      <pre>
        ingest publish-map dist/map.json --place {quote(placeId)} --build {quote(buildId)}
      </pre>
    </>
  )
}

/** For a POSIX shell. */
function quote(id: string): string {
  return /^[\w.-]+$/.test(id) ? id : `'${id.replaceAll("'", "'\\''")}'`
}
