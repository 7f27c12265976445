import { useEffect, useRef } from 'preact/hooks'
import type { Address } from '../address.ts'
import { BuildMaps } from './maps/build-maps.tsx'
import { Builds } from './maps/builds.tsx'
import { MapOfPlace } from './maps/map-of-place.tsx'
import './maps/maps.css'

/** `#/maps`: the builds; `#/maps/<build>`: its maps; `#/maps/<build>?place=<place>`: one map. */
export function MapsView({ address }: { address: Address }) {
  const [, buildId] = address.path
  const placeId = address.query.get('place')
  const isFirst = useRef(true)
  useEffect(() => {
    // the link that was followed is gone
    if (!isFirst.current) document.querySelector<HTMLElement>('main h1')?.focus()
    isFirst.current = false
  }, [buildId, placeId])
  if (buildId === undefined) return <Builds />
  if (placeId === null) return <BuildMaps key={buildId} buildId={buildId} />
  // the worker of a map ends with it
  return <MapOfPlace key={JSON.stringify([buildId, placeId])} buildId={buildId} placeId={placeId} />
}
