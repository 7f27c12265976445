import type { ComponentChildren, RefObject } from 'preact'
import { pan, type Size, type Viewport, zoom } from '../../heat/viewport.ts'
import { toPlot } from './draw-heat.ts'
import { type Gestures, useGestures } from './use-gestures.ts'

interface MapFrameProps extends Partial<Pick<Gestures, 'onPoint' | 'onClick'>> {
  frame: RefObject<HTMLDivElement | null>
  /** Converts a point of the frame to a point of its picture. Default: there is one picture. */
  toPicture?: ToPicture
  label: string
  /** Describes the keyboard controls. */
  keys: string
  /** Moves or zooms the map. */
  onMove(action: MapMove): void
  /** Shows everything. */
  onFit(): void
  /** Returns whether it handled the key. */
  onKey?(event: KeyboardEvent): boolean
  /** The map, in the frame. */
  children: ComponentChildren
  /** Below the map. */
  readout?: ComponentChildren
}

export type ToPicture = (at: { x: number; y: number }) => { x: number; y: number }

type MapMove = (viewport: Viewport, plot: Size) => Viewport

const panPixels = 60
const zoomStep = 1.4

/** Directions of the arrow keys. */
export const arrows: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
}

/** Moves a map by arrow keys, +, - and 0; returns whether it handled the key. */
function moveByKey(event: KeyboardEvent, { onMove, onFit }: Pick<MapFrameProps, 'onMove' | 'onFit'>): boolean {
  const arrow = arrows[event.key]
  if (arrow) onMove((viewport) => pan(viewport, -arrow[0] * panPixels, -arrow[1] * panPixels))
  else if (event.key === '+' || event.key === '=') onMove((viewport, plot) => zoom(viewport, zoomStep, plot))
  else if (event.key === '-') onMove((viewport, plot) => zoom(viewport, 1 / zoomStep, plot))
  else if (event.key === '0') onFit()
  else return false
  return true
}

/** A map that can be moved by dragging, wheel, pinch, buttons and keys. */
export function MapFrame(props: MapFrameProps) {
  const { frame, label, keys, children, readout, onMove, onFit, onKey, onPoint = ignore, onClick = ignore } = props
  const { toPicture = (at) => at } = props
  useGestures(frame, {
    onPan: (dx, dy) => onMove((viewport) => pan(viewport, dx, dy)),
    onZoom: (factor, at) => onMove((viewport, plot) => zoom(viewport, factor, plot, toPlot(toPicture(at)))),
    onPoint,
    onClick,
  })
  const zoomBy = (factor: number) => onMove((viewport, plot) => zoom(viewport, factor, plot))

  function press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return
    if (onKey?.(event) || moveByKey(event, props)) event.preventDefault()
  }

  return (
    <div class="heat-map">
      <div
        ref={frame}
        class="heat-frame"
        id="map-frame"
        role="application"
        aria-label={label}
        aria-describedby="map-keys"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application takes keys
        tabIndex={0}
        onKeyDown={press}
      >
        {children}
      </div>
      <div class="heat-buttons">
        <Button name="Zoom in" sign="+" onClick={() => zoomBy(zoomStep)} />
        <Button name="Zoom out" sign="−" onClick={() => zoomBy(1 / zoomStep)} />
        <Button name="Show everything" sign="⤢" onClick={onFit} />
      </div>
      {readout}
      <p class="hint" id="map-keys">
        {keys}
      </p>
    </div>
  )
}

const ignore = () => {}

function Button({ name, sign, onClick }: { name: string; sign: string; onClick(): void }) {
  return (
    <button type="button" aria-label={name} title={name} onClick={onClick}>
      {sign}
    </button>
  )
}
