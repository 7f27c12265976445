/** Where each id was first seen. */
export interface FirstPlaces {
  find(id: string): number | undefined
  add(id: string, at: number): void
}

/** A Map of Node holds at most 2^24 entries, and grows by doubling. */
const idsPerMapMax = 2 ** 23

/** Remembers ids and where they were, in about 100 bytes of memory each. */
export function createFirstPlaces(idsMax = idsPerMapMax): FirstPlaces {
  let newest = new Map<string, number>()
  const maps = [newest]
  return {
    find(id) {
      for (const map of maps) {
        const at = map.get(id)
        if (at !== undefined) return at
      }
      return undefined
    },
    add(id, at) {
      if (newest.size === idsMax) {
        newest = new Map()
        maps.push(newest)
      }
      // a part of a longer text would keep all of it in memory
      newest.set(Buffer.from(id).toString(), at)
    },
  }
}
