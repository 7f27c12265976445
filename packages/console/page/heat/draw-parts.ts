import type { Footprints } from './parts.ts'
import type { Size, Viewport } from './viewport.ts'

export interface PartColors {
  fill: string
  line: string
}

/** The part of a canvas context that drawParts uses. */
type PartCanvas = Pick<
  OffscreenCanvasRenderingContext2D,
  'beginPath' | 'moveTo' | 'lineTo' | 'closePath' | 'fill' | 'stroke' | 'fillStyle' | 'strokeStyle' | 'lineWidth'
>

/** Draws the parts in the viewport, in CSS pixels; parts below half a pixel are left out. */
export function drawParts(
  canvas: PartCanvas,
  { corners, length }: Footprints,
  view: Viewport & Size,
  colors: PartColors,
) {
  const { x, y, unitsPerPixel, width, height } = view
  canvas.fillStyle = colors.fill
  canvas.strokeStyle = colors.line
  canvas.lineWidth = 1
  const xs = new Float32Array(4)
  const ys = new Float32Array(4)
  for (let part = 0; part < length; part++) {
    for (let i = 0; i < 4; i++) {
      xs[i] = ((corners[8 * part + 2 * i] as number) - x) / unitsPerPixel + width / 2
      ys[i] = ((corners[8 * part + 2 * i + 1] as number) - y) / unitsPerPixel + height / 2
    }
    const left = Math.min(...xs)
    const right = Math.max(...xs)
    const top = Math.min(...ys)
    const bottom = Math.max(...ys)
    if (right < 0 || left > width || bottom < 0 || top > height) continue
    if (right - left < 0.5 && bottom - top < 0.5) continue
    canvas.beginPath()
    for (let i = 0; i < 4; i++) canvas[i === 0 ? 'moveTo' : 'lineTo'](xs[i] as number, ys[i] as number)
    canvas.closePath()
    canvas.fill()
    canvas.stroke()
  }
}
