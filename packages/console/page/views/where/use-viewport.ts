import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Selection } from '../../heat/heat-events.ts'
import { around, type Box, fit, type Size, type Viewport } from '../../heat/viewport.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { SampleQuery } from '../../worker/samples.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { useLatest } from './use-latest.ts'
import { formatWhere } from './where-address.ts'

interface ViewportOptions {
  call: CallWorker
  /** One sample, or two to compare. */
  queries: readonly SampleQuery[]
  selection: Selection
  /** Number of events read so far. */
  events: number
  parts: FoundParts | undefined
  plot: Size | undefined
  /** The viewport in the address. */
  view: Viewport | undefined
  onView(view: Viewport | undefined): void
}

/** Delay before a movement is written to the address: browsers limit how often it changes. */
const settleMs = 300

/** Fits events and parts until the user moves the map, and again on request. */
export function useViewport({ call, queries, selection, events, parts, plot, view, onView }: ViewportOptions) {
  const [moved, setMoved] = useState(view)
  const { across, down, placeId } = selection
  const extent = useLatest(async () => {
    const everything = { across, down, placeId }
    const boxes = await Promise.all(queries.map((query) => call('whereExtent', { query, selection: everything })))
    return { box: boxes.reduce((a, b) => around(a, b), undefined) }
  }, [across, down, placeId, queries, events])
  // the address lags behind: a value that this hook has written is not an opened link
  const written = useRef(textOf(view))
  useEffect(() => {
    if (textOf(view) === written.current) return
    written.current = textOf(view)
    setMoved(view)
  }, [textOf(view)])
  useEffect(() => {
    if (textOf(moved) === written.current) return
    const timer = setTimeout(() => {
      written.current = textOf(moved)
      onView(moved)
    }, settleMs)
    return () => clearTimeout(timer)
  }, [moved])
  const box = extent && boxToShow(extent.box, parts?.box)
  const fitted = useMemo(() => plot && extent && fit(box ?? emptyBox, plot), [plot, box && Object.values(box).join()])
  return {
    viewport: moved ?? fitted,
    setViewport: (action: (before: Viewport | undefined) => Viewport | undefined) =>
      setMoved((before) => action(before ?? fitted)),
    fitAll: () => setMoved(undefined),
  }
}

const textOf = (view: Viewport | undefined) => view && formatWhere({ view }).at

const emptyBox = { left: 0, top: 0, right: 100, bottom: 100 }

/**
 * A box around events and parts; around only the events if the parts are so far away that the events would be a dot.
 * Events at one point, a dot at any scale, are always shown with the parts.
 */
function boxToShow(events: Box | undefined, parts: Box | undefined): Box | undefined {
  const both = around(events, parts)
  if (!events || !both) return both
  const [width, height] = [events.right - events.left, events.bottom - events.top]
  if (width === 0 && height === 0) return both
  const isFar = both.right - both.left > 4 * Math.max(1, width) && both.bottom - both.top > 4 * Math.max(1, height)
  return isFar ? events : both
}
