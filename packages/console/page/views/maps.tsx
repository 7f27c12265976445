import { useEffect, useRef } from 'preact/hooks'
import type { Address } from '../address.ts'
import { BuildMaps } from './maps/build-maps.tsx'
import { Builds } from './maps/builds.tsx'
import { MapOfPlace } from './maps/map-of-place.tsx'
import './maps/maps.css'

/**
 * `#/maps?search=…`: the builds. `#/maps/<build>`: its maps. `#/maps/<build>?place=<place>`: one map, compared with
 * another build's if `&with=<build>` is given.
 */
export function MapsView({ address }: { address: Address }) {
  const [, buildId] = address.path
  const placeId = address.query.get('place')
  const withBuildId = address.query.get('with') ?? ''
  const isFirst = useRef(true)
  useEffect(() => {
    // the followed link no longer exists: move the focus
    if (!isFirst.current) document.querySelector<HTMLElement>('main h1')?.focus()
    isFirst.current = false
  }, [buildId, placeId])
  if (buildId === undefined) return <Builds search={address.query.get('search') ?? ''} />
  if (placeId === null) return <BuildMaps key={buildId} buildId={buildId} />
  // the worker of a map ends with this component
  return <MapOfPlace key={JSON.stringify([buildId, placeId])} {...{ buildId, placeId, withBuildId }} />
}
