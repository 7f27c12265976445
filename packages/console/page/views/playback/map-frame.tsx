import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { pan, type Size, type Viewport, zoom } from '../../heat/viewport.ts'
import { toPlot } from '../where/draw-heat.ts'
import { useGestures } from '../where/use-gestures.ts'

export interface MapFrameProps {
  frame: RefObject<HTMLDivElement | null>
  label: string
  /** What the keys do, for people. */
  keys: string
  /** Moves the map or looks closer. */
  onMove(action: (viewport: Viewport, plot: Size) => Viewport): void
  /** Shows everything. */
  onFit(): void
  /** The map, in the frame. */
  children: ComponentChildren
}

const panPixels = 60
const zoomStep = 1.4

/** The directions of the arrow keys. */
const directions: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
}

/** A map that is moved by dragging, the wheel, two fingers, buttons and keys. */
export function MapFrame(props: MapFrameProps) {
  const { frame, label, keys, children, onMove, onFit } = props
  const gestures = {
    onPan: (dx: number, dy: number) => onMove((viewport) => pan(viewport, dx, dy)),
    onZoom: (factor: number, at: { x: number; y: number }) =>
      onMove((viewport, plot) => zoom(viewport, factor, plot, toPlot(at))),
    onPoint: ignore,
    onClick: ignore,
  }
  useGestures(frame, gestures)
  const zoomBy = (factor: number) => onMove((viewport, plot) => zoom(viewport, factor, plot))

  function press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return
    const direction = directions[event.key]
    if (direction) onMove((viewport) => pan(viewport, -direction[0] * panPixels, -direction[1] * panPixels))
    else if (event.key === '+' || event.key === '=') zoomBy(zoomStep)
    else if (event.key === '-') zoomBy(1 / zoomStep)
    else if (event.key === '0') onFit()
    else return
    event.preventDefault()
  }

  return (
    <div class="heat-map">
      <div
        ref={frame}
        class="heat-frame"
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

/** The size of the frame, undefined before it is known. */
export function useSize(frame: RefObject<HTMLElement | null>): Size | undefined {
  const [size, setSize] = useState<Size>()
  useEffect(() => {
    const element = frame.current
    if (!element) return
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = element
      // nothing is seen meanwhile
      if (width > 0 && height > 0) setSize({ width, height })
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return size
}
