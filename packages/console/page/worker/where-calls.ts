import { parseEventLine, readLines } from '../api/event-lines.ts'
import { RequestError } from '../api/request-error.ts'
import { drawParts, type PartColors } from '../heat/draw-parts.ts'
import type { Grid } from '../heat/grid.ts'
import {
  type CountedEvents,
  createHeatEvents,
  type EventSummary,
  type HeatEvents,
  type Selection,
} from '../heat/heat-events.ts'
import { type Axis, type Footprints, findParts, footprintsOf, type Parts } from '../heat/parts.ts'
import type { Box, Size, Viewport } from '../heat/viewport.ts'
import type { CallContext } from './call-context.ts'
import { fetchMapBytes, type MapVersion, parseMap } from './map-calls.ts'
import type { LoadProgress } from './read-body.ts'

/** The events to read. A request with another number starts over. */
export interface ReadRequest {
  number: number
  buildId: string
  /** RFC 3339; the build has no event before. */
  from?: string | undefined
  /** Pointers to keep the values of, besides those that look like coordinates. */
  wanted: readonly string[]
}

export interface ReadProgress extends EventSummary {
  /** Whether these are all events of the build until this request. */
  isEnd: boolean
}

/** The parts of a map. */
export interface FoundParts {
  count: number
  /** How many of them are drawn: the largest. */
  drawn: number
  isCut: boolean
  box: Box | undefined
}

export interface PartsView extends Viewport, Size {
  /** Of the screen. */
  pixelRatio: number
  colors: PartColors
}

interface ReadingState {
  number: number
  events: HeatEvents
  cursor: string | undefined
  /** By the server's clock: under constant traffic the end would never be reached. */
  until: number | undefined
}

const perResponse = 10_000
const partsDrawnMax = 50_000

/** The calls of the view "Where it happens": events and parts stay in the worker, the page receives counts and images. */
export function createWhereCalls() {
  let reading: ReadingState | undefined
  let parts: Parts | undefined
  let footprints: Footprints | undefined

  return {
    /** Reads the next response, and describes everything read so far. */
    whereRead: async (asked: ReadRequest, context: CallContext): Promise<ReadProgress> => {
      if (reading?.number !== asked.number) {
        const events = createHeatEvents(asked.wanted)
        reading = { number: asked.number, events, cursor: undefined, until: undefined }
      }
      const state = reading
      const isEnd = await readResponse(state, asked, context)
      // the next call reads later events
      if (isEnd) state.until = undefined
      return { ...state.events.summary(), isEnd }
    },

    whereCount: async ({ selection, grid }: { selection: Selection; grid: Grid }): Promise<CountedEvents | undefined> =>
      reading?.events.count(selection, grid),

    whereExtent: async (selection: Selection): Promise<Box | undefined> => reading?.events.extent(selection),

    /** Downloads a map and finds its parts; undefined if it is not JSON. */
    whereFindParts: async (map: MapVersion, context: CallContext<LoadProgress>): Promise<number | undefined> => {
      parts = undefined
      footprints = undefined
      const bytes = await fetchMapBytes(map, context)
      parts = parseParts(bytes)
      return parts?.length
    },

    /** The parts as seen with these axes across and down. */
    whereLookAtParts: async ({ across, down }: { across: Axis; down: Axis }): Promise<FoundParts | undefined> => {
      if (!parts) return undefined
      footprints = footprintsOf(parts, across, down, partsDrawnMax)
      return { count: parts.length, drawn: footprints.length, isCut: parts.isCut, box: footprints.box }
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

/** Whether the end was reached. Events stay read if the response breaks off. */
async function readResponse(state: ReadingState, { buildId, from }: ReadRequest, { api, signal }: CallContext) {
  const before = state.cursor
  const query = { buildId, from, after: before, to: state.until, limit: perResponse }
  const response = await api.fetch('v1/events', { query, signal })
  const date = Date.parse(response.headers.get('Date') ?? '')
  // the header has whole seconds
  if (state.until === undefined && !Number.isNaN(date)) state.until = date + 1_000
  try {
    for await (const lines of readLines(response.body as ReadableStream<Uint8Array<ArrayBuffer>>)) {
      // a cancelled call must not add events that its successor reads again
      signal.throwIfAborted()
      for (const line of lines) addLine(state, line)
    }
  } catch {
    signal.throwIfAborted()
    throw new RequestError('offline', 'The response was interrupted.')
  }
  return state.cursor === before
}

function addLine(state: ReadingState, line: string): void {
  const { cursor, receivedAt, text } = parseEventLine(line)
  if (text !== undefined) state.events.add(JSON.parse(text), receivedAt)
  state.cursor = cursor
}

/** Undefined if the map is not JSON. */
function parseParts(bytes: Uint8Array): Parts | undefined {
  try {
    return findParts(parseMap(bytes))
  } catch {
    return undefined
  }
}
