import { type Cell, type Counts, cellAt, type Grid } from '../../heat/grid.ts'
import { ticks } from '../../heat/scale.ts'
import { type Box, boxOf, type Size, type Viewport } from '../../heat/viewport.ts'
import { visibleText } from '../../visible-text.ts'
import { formatUnits } from './format-units.ts'

/** Space around the plot for axis labels, in CSS pixels. */
export const margins = { left: 58, right: 12, top: 10, bottom: 42 }

/** The size of the plot within the canvas. */
export function plotOf({ width, height }: Size): Size {
  return {
    width: Math.max(1, width - margins.left - margins.right),
    height: Math.max(1, height - margins.top - margins.bottom),
  }
}

export interface Theme {
  isDark: boolean
  background: string
  text: string
  muted: string
  border: string
}

export interface HeatPicture {
  /** The size of the canvas. */
  size: Size
  viewport: Viewport
  /** Counts as an image with one pixel per cell. */
  heat: { image: CanvasImageSource; grid: Grid } | undefined
  /** The parts of the map, as drawn for a viewport. */
  parts: { image: CanvasImageSource; view: Viewport & Size } | undefined
  /** Cells to outline. */
  cells: readonly Box[]
  names: { across: string; down: string }
  theme: Theme
}

/** Draws everything, in CSS pixels. Images of another viewport are moved and stretched into place. */
export function drawHeat(context: CanvasRenderingContext2D, picture: HeatPicture): void {
  const { size, theme } = picture
  const plot = plotOf(size)
  const toPixels = pixelsOf(picture)
  context.fillStyle = theme.background
  context.fillRect(0, 0, size.width, size.height)
  context.save()
  context.beginPath()
  context.rect(margins.left, margins.top, plot.width, plot.height)
  context.clip()
  drawGridLines(context, picture, toPixels)
  drawImages(context, picture, toPixels)
  for (const cell of picture.cells) drawCell(context, cell, theme, toPixels)
  context.restore()
  context.strokeStyle = theme.border
  context.lineWidth = 1
  context.strokeRect(margins.left - 0.5, margins.top - 0.5, plot.width + 1, plot.height + 1)
  drawLabels(context, picture, toPixels)
}

/** Converts units of the map to CSS pixels of the canvas. */
export type ToPixels = (x: number, y: number) => [number, number]

export function pixelsOf({ size, viewport }: Pick<HeatPicture, 'size' | 'viewport'>): ToPixels {
  const plot = plotOf(size)
  return (x, y) => [
    margins.left + plot.width / 2 + (x - viewport.x) / viewport.unitsPerPixel,
    margins.top + plot.height / 2 + (y - viewport.y) / viewport.unitsPerPixel,
  ]
}

function drawImages(context: CanvasRenderingContext2D, { heat, parts }: HeatPicture, toPixels: ToPixels): void {
  function drawParts(): void {
    if (!parts) return
    const { left, top, right, bottom } = boxOf(parts.view, parts.view)
    const [x, y] = toPixels(left, top)
    const [toX, toY] = toPixels(right, bottom)
    context.drawImage(parts.image, x, y, toX - x, toY - y)
  }
  drawParts()
  if (heat) {
    const { left, top, cell, columns, rows } = heat.grid
    const [x, y] = toPixels(left, top)
    const [toX, toY] = toPixels(left + columns * cell, top + rows * cell)
    context.imageSmoothingEnabled = false
    context.drawImage(heat.image, x, y, toX - x, toY - y)
    context.imageSmoothingEnabled = true
    // faintly visible through the events
    context.globalAlpha = 0.5
    drawParts()
    context.globalAlpha = 1
  }
}

function drawCell(context: CanvasRenderingContext2D, cell: Box, theme: Theme, toPixels: ToPixels): void {
  const [x, y] = toPixels(cell.left, cell.top)
  const [toX, toY] = toPixels(cell.right, cell.bottom)
  // visible on any colour
  for (const [color, width] of [[theme.background, 4] as const, [theme.text, 2] as const]) {
    context.strokeStyle = color
    context.lineWidth = width
    context.strokeRect(x - 1, y - 1, toX - x + 2, toY - y + 2)
  }
}

function axisTicks({ size, viewport }: HeatPicture) {
  const plot = plotOf(size)
  const box = boxOf(viewport, plot)
  return {
    across: ticks(box.left, box.right, plot.width / 90),
    down: ticks(box.top, box.bottom, plot.height / 45),
  }
}

function drawGridLines(context: CanvasRenderingContext2D, picture: HeatPicture, toPixels: ToPixels): void {
  const { size, theme } = picture
  const { across, down } = axisTicks(picture)
  context.strokeStyle = theme.border
  context.globalAlpha = 0.5
  context.lineWidth = 1
  context.beginPath()
  for (const x of across) {
    const at = Math.round(toPixels(x, 0)[0]) + 0.5
    context.moveTo(at, 0)
    context.lineTo(at, size.height)
  }
  for (const y of down) {
    const at = Math.round(toPixels(0, y)[1]) + 0.5
    context.moveTo(0, at)
    context.lineTo(size.width, at)
  }
  context.stroke()
  context.globalAlpha = 1
}

function drawLabels(context: CanvasRenderingContext2D, picture: HeatPicture, toPixels: ToPixels): void {
  const { size, theme, names } = picture
  const { across, down } = axisTicks(picture)
  const bottom = size.height - margins.bottom
  context.fillStyle = theme.muted
  context.font = '12px system-ui, "Segoe UI", Roboto, sans-serif'
  context.textAlign = 'center'
  context.textBaseline = 'top'
  for (const x of across) {
    const label = formatUnits(x)
    // the last one must not end outside of the canvas
    const rightmost = size.width - context.measureText(label).width / 2
    context.fillText(label, Math.min(toPixels(x, 0)[0], rightmost), bottom + 6)
  }
  context.textAlign = 'right'
  context.textBaseline = 'middle'
  for (const y of down) context.fillText(formatUnits(y), margins.left - 8, toPixels(0, y)[1])
  context.fillStyle = theme.text
  context.textAlign = 'center'
  context.textBaseline = 'bottom'
  context.fillText(visibleText(names.across), margins.left + plotOf(size).width / 2, size.height - 4)
  context.save()
  context.translate(4, margins.top + plotOf(size).height / 2)
  context.rotate(-Math.PI / 2)
  context.textBaseline = 'top'
  context.fillText(visibleText(names.down), 0, 0)
  context.restore()
}

/** Converts a point of the canvas to a point of the plot. */
export function toPlot({ x, y }: { x: number; y: number }): { x: number; y: number } {
  return { x: x - margins.left, y: y - margins.top }
}

/** The cell at a point of the canvas. */
export function cellUnder(
  counts: Counts,
  viewport: Viewport,
  size: Size,
  at: { x: number; y: number },
): Cell | undefined {
  const plot = plotOf(size)
  const { x, y } = toPlot(at)
  if (x < 0 || y < 0 || x >= plot.width || y >= plot.height) return undefined
  const { left, top } = boxOf(viewport, plot)
  return cellAt(counts, left + x * viewport.unitsPerPixel, top + y * viewport.unitsPerPixel)
}
