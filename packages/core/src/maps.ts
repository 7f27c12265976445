import type { Maps } from './map.ts'
import type { Store } from './store.ts'

export interface MapRules {
  /**
   * What becomes of the first map for a place of a build that is frozen already: game servers can be faster than the
   * build pipeline. `accept`, once, without.
   */
  latePublish?: 'accept' | 'reject'
}

export interface MapsOptions {
  store: Store
  rules: MapRules
  now(): number
}

/** The maps of an Ingest on a store. */
export function createMaps(_: MapsOptions): Maps {
  const todo = async () => {
    throw new Error('not yet')
  }
  return {
    publishMap: todo,
    putChunks: todo,
    putChunk: todo,
    map: todo,
    maps: todo,
    readMap: todo,
    readChunk: todo,
  }
}
