import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { type Box, fit, pan, type Viewport, zoom } from '../../heat/viewport.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { ComparisonView } from '../../worker/compare-calls.ts'
import { type MapMove, moveByKey } from '../where/map-frame.tsx'
import { useGestures } from '../where/use-gestures.ts'
import { useLatest } from '../where/use-latest.ts'
import { useSize } from '../where/use-size.ts'
import { partColors, useTheme } from '../where/use-theme.ts'

interface ComparisonPictureProps {
  call: CallWorker
  /** A box around all parts. */
  box: Box
  /** A box around the part to show. */
  focus: Box | undefined
}

/** How much of a part's surroundings is shown with it. */
const focusShare = 4

/** The parts of both maps from above; colours show the kind of change. */
export function ComparisonPicture({ call, box, focus }: ComparisonPictureProps) {
  const frame = useRef<HTMLDivElement | null>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const size = useSize(frame)
  const [moved, setMoved] = useState<Viewport>()
  const fitted = useMemo(() => size && fit(box, size), [size, box])
  const viewport = moved ?? fitted
  const theme = useTheme()
  const pixelRatio = Math.min(3, devicePixelRatio)
  useEffect(() => {
    if (focus && size) setMoved(fit(widen(focus), size))
  }, [focus])

  const change = (action: MapMove) => {
    if (viewport && size) setMoved(action(viewport, size))
  }
  useGestures(frame, {
    onPan: (dx, dy) => change((viewport) => pan(viewport, dx, dy)),
    onZoom: (factor, at) => change((viewport, size) => zoom(viewport, factor, size, at)),
    onClick: () => {},
    onPoint: () => {},
  })
  const image = useLatest(async () => {
    if (!viewport || !size) return undefined
    return call('drawComparison', { ...viewport, ...size, pixelRatio, colors: colorsOf(theme.isDark) })
  }, [viewport, size, theme])

  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (!context || !canvas.current || !image) return
    canvas.current.width = image.width
    canvas.current.height = image.height
    context.drawImage(image, 0, 0)
    return () => image.close()
  }, [image])

  function press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.altKey || event.metaKey) return
    if (moveByKey(event, { onMove: change, onFit: () => setMoved(undefined) })) event.preventDefault()
  }

  return (
    <div class="map-comparison">
      <div
        ref={frame}
        class="comparison-frame"
        role="application"
        aria-label="Both maps from above"
        aria-describedby="comparison-keys"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application has keys of its own
        tabIndex={0}
        onKeyDown={press}
      >
        <canvas ref={canvas} role="img" aria-label="The parts that were added, removed, moved and changed" />
      </div>
      <p class="hint" id="comparison-keys">
        Keys: + and − zoom, arrows move the map, 0 shows everything.
      </p>
    </div>
  )
}

function widen({ left, top, right, bottom }: Box): Box {
  const margin = (Math.max(right - left, bottom - top) * (focusShare - 1)) / 2
  return { left: left - margin, top: top - margin, right: right + margin, bottom: bottom + margin }
}

/** The colours must match maps.css. */
function colorsOf(isDark: boolean): ComparisonView['colors'] {
  const color = (rgb: string, fill = 0.3) => ({ fill: `rgb(${rgb} / ${fill})`, line: `rgb(${rgb} / 0.95)` })
  const [added, removed, moved, changed] = isDark
    ? ['111 207 142', '242 147 140', '224 179 84', '134 180 248']
    : ['31 122 61', '179 38 30', '138 97 0', '11 87 194']
  return {
    same: partColors({ isDark }),
    removed: color(removed as string),
    'moved-from': color(moved as string, 0),
    moved: color(moved as string),
    changed: color(changed as string),
    added: color(added as string),
  }
}
