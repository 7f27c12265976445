import { drawParts, type PartColors } from '../heat/draw-parts.ts'
import type { Grid } from '../heat/grid.ts'
import type { CountedEvents, HeatEvents, ListedEvent, Selection } from '../heat/heat-events.ts'
import { type Axis, type Footprints, findParts, footprintsOf, type Parts } from '../heat/parts.ts'
import type { Box, Size, Viewport } from '../heat/viewport.ts'
import type { CallContext } from './call-context.ts'
import { fetchMapBytes, type LastMap, type MapVersion, parseMap } from './map-calls.ts'
import type { LoadProgress } from './read-body.ts'
import { createSamples, type SampleQuery } from './samples.ts'

/** Selects the same number of events from each sample: that of the smallest one. */
interface EqualSelection {
  queries: readonly SampleQuery[]
  selection: Selection
}

/** The parts of a map. */
export interface FoundParts {
  count: number
  /** How many of them are drawn: the largest ones. */
  drawn: number
  isCut: boolean
  /** Whether the first part has no third axis. */
  isFlat: boolean
  box: Box | undefined
}

interface PartsView extends Viewport, Size {
  /** The device pixel ratio of the screen. */
  pixelRatio: number
  colors: PartColors
}

const partsDrawnMax = 50_000

/**
 * The calls of the view "Where it happens". Events and parts stay in the worker; the page receives counts and images.
 */
export function createWhereCalls(last: LastMap) {
  const samples = createSamples()
  let footprints: Footprints | undefined

  /** The results for each sample; undefined if one is missing. */
  function ofEach<Result>(
    { queries, selection }: EqualSelection,
    compute: (events: HeatEvents, shownMax: number) => Result,
  ): readonly Result[] | undefined {
    const events = queries.map(samples.get)
    if (!events.every((each) => each !== undefined)) return undefined
    const shownMax = Math.min(...events.map((each) => each.located(selection)))
    return events.map((each) => compute(each, shownMax))
  }

  return {
    whereRead: samples.read,

    whereCount: async ({
      grid,
      ...selected
    }: EqualSelection & { grid: Grid }): Promise<readonly CountedEvents[] | undefined> =>
      ofEach(selected, (events, shownMax) => events.count(selected.selection, grid, shownMax)),

    whereExtent: async ({ query, selection }: { query: SampleQuery; selection: Selection }): Promise<Box | undefined> =>
      samples.get(query)?.extent(selection),

    /** The newest of the counted events in a cell. */
    whereList: async ({
      box,
      limit,
      ...selected
    }: EqualSelection & { box: Box; limit: number }): Promise<readonly ListedEvent[][] | undefined> =>
      ofEach(selected, (events, shownMax) => events.list(selected.selection, box, limit, shownMax)),

    /** Downloads a map and finds its parts; undefined if it is not JSON. */
    whereFindParts: async (map: MapVersion, context: CallContext<LoadProgress>): Promise<number | undefined> => {
      // keep a map that is already loaded
      if (last.parts?.digest !== map.digest) {
        last.parts = undefined
        footprints = undefined
        last.parts = { digest: map.digest, found: parseParts(await fetchMapBytes(map, context)) }
      }
      return last.parts.found?.length
    },

    /** The parts, as seen with these axes across and down. */
    whereLookAtParts: async ({ across, down }: { across: Axis; down: Axis }): Promise<FoundParts | undefined> => {
      const parts = last.parts?.found
      if (!parts) return undefined
      footprints = footprintsOf(parts, across, down, partsDrawnMax)
      const isFlat = Number.isNaN(parts.centers[2])
      return { count: parts.length, drawn: footprints.length, isCut: parts.isCut, isFlat, box: footprints.box }
    },

    whereDrawParts: async (view: PartsView): Promise<ImageBitmap | undefined> => {
      if (!footprints) return undefined
      const { width, height, pixelRatio, colors } = view
      const canvas = new OffscreenCanvas(Math.max(1, width * pixelRatio), Math.max(1, height * pixelRatio))
      const context = canvas.getContext('2d')
      if (!context) return undefined
      context.scale(pixelRatio, pixelRatio)
      drawParts(context, footprints, view, colors)
      return canvas.transferToImageBitmap()
    },
  }
}

/** Undefined if the map is not JSON. */
function parseParts(bytes: Uint8Array): Parts | undefined {
  try {
    return findParts(parseMap(bytes))
  } catch {
    return undefined
  }
}
