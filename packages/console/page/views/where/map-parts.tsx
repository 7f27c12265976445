import { useContext, useEffect, useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import type { RequestError } from '../../api/request-error.ts'
import { ConnectionContext, repeat } from '../../api/use-api.ts'
import { formatBytes, formatCount, formatCountOf } from '../../format.ts'
import { axisOf } from '../../heat/pairs.ts'
import { Failure } from '../../parts/notice.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import { parsedBytesMax } from '../../worker/map-calls.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { useLatest } from './use-latest.ts'

interface MapParts {
  map: MapStatus | undefined
  /** `large`: loaded only by `load`. */
  status: 'none' | 'large' | 'loading' | 'found' | 'not-json'
  found: FoundParts | undefined
  error: RequestError | undefined
  load(): void
}

/** The parts of a map, as seen along the axes named by the pointers. Large maps are loaded only by `load`. */
export function useMapParts(
  call: CallWorker,
  map: MapStatus | undefined,
  { across, down }: { across: string; down: string },
): MapParts {
  const connection = useContext(ConnectionContext)
  const digest = map?.state === 'complete' ? map.digest : undefined
  const [wanted, setWanted] = useState<string>()
  const [loaded, setLoaded] = useState<{ digest: string; isJson: boolean }>()
  const [error, setError] = useState<RequestError>()
  const isLoading = digest !== undefined && ((map?.size ?? 0) <= parsedBytesMax || wanted === digest)

  useEffect(() => {
    setError(undefined)
    if (!isLoading || !map || loaded?.digest === digest) return
    const ending = new AbortController()
    const { signal } = ending
    async function load(map: MapStatus): Promise<undefined> {
      const count = await call('whereFindParts', map, { signal })
      setError(undefined)
      setLoaded({ digest: digest as string, isJson: count !== undefined })
    }
    void repeat(() => load(map), { connection, signal, onError: setError })
    return () => ending.abort()
  }, [call, digest, isLoading])

  const isLoaded = digest !== undefined && loaded?.digest === digest
  const axes = { across: axisOf(across), down: axisOf(down) }
  const seen = useLatest(async () => {
    if (!isLoaded || axes.across === undefined || axes.down === undefined || axes.across === axes.down) return {}
    return { found: await call('whereLookAtParts', { across: axes.across, down: axes.down }) }
  }, [call, loaded, isLoaded, axes.across, axes.down])
  return {
    map,
    status: statusOf(),
    found: isLoaded ? seen?.found : undefined,
    error,
    load: () => setWanted(digest),
  }

  function statusOf(): MapParts['status'] {
    if (digest === undefined) return 'none'
    if (!isLoading) return 'large'
    if (!isLoaded) return 'loading'
    return loaded?.isJson ? 'found' : 'not-json'
  }
}

/** Describes the drawn parts of the map in a sentence. */
export function MapPartsLine({ parts, placeId }: { parts: MapParts; placeId: string | undefined }) {
  const { map, status, error, load } = parts
  if (error) return <Failure error={error} what="return maps" />
  if (status === 'large') {
    return (
      <p class="hint">
        The map is large.{' '}
        <button type="button" onClick={load}>{`Draw the map (${formatBytes(map?.size ?? 0)})`}</button>
      </p>
    )
  }
  return (
    <p class="hint" role="status">
      {describe(parts, placeId)}
    </p>
  )
}

function describe({ map, status, found }: MapParts, placeId: string | undefined): string {
  if (placeId === undefined) return 'Choose a place to see its map under the events.'
  if (!map) return 'This place has no map in this build.'
  if (status === 'none') return 'The map is incomplete, so it is not drawn.'
  if (status === 'loading') return `Drawing the map (${formatBytes(map.size)})…`
  if (status === 'not-json') return 'The map is not JSON, so it is not drawn.'
  if (!found) return 'The map is drawn only for coordinates named x, y or z.'
  if (found.count === 0) return 'The map has no parts with positions and sizes.'
  return `Under the events: ${describeDrawn(found)}.`
}

/** `242 parts of the map`, `the 50,000 largest of over 1,000,000 parts of the map`. */
export function describeDrawn({ count, drawn, isCut }: FoundParts): string {
  const all = `${formatCountOf(count, 'part')} of the map`
  return drawn === count ? all : `the ${formatCount(drawn)} largest of ${isCut ? 'over ' : ''}${all}`
}
