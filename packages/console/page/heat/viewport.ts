/** A rectangle in units of the map. */
export interface Box {
  left: number
  top: number
  right: number
  bottom: number
}

/** The visible part of the map: its center, and the scale, which is the same across and down. */
export interface Viewport {
  x: number
  y: number
  unitsPerPixel: number
}

/** In CSS pixels. */
export interface Size {
  width: number
  height: number
}

const marginShare = 0.04

/** Shows the whole box with a margin. A box without width or height is treated as one unit wide or high. */
export function fit({ left, top, right, bottom }: Box, size: Size): Viewport {
  const width = Math.max(right - left, 1) * (1 + 2 * marginShare)
  const height = Math.max(bottom - top, 1) * (1 + 2 * marginShare)
  return {
    x: (left + right) / 2,
    y: (top + bottom) / 2,
    unitsPerPixel: Math.max(width / Math.max(1, size.width), height / Math.max(1, size.height)),
  }
}

/** Zooms; factors over 1 show less of the map. The map point at `at` (pixels) keeps its place on the screen. */
export function zoom(
  viewport: Viewport,
  factor: number,
  size: Size,
  at = { x: size.width / 2, y: size.height / 2 },
): Viewport {
  const unitsPerPixel = Math.min(1e18, Math.max(1e-6, viewport.unitsPerPixel / factor))
  const change = viewport.unitsPerPixel - unitsPerPixel
  return {
    x: viewport.x + (at.x - size.width / 2) * change,
    y: viewport.y + (at.y - size.height / 2) * change,
    unitsPerPixel,
  }
}

/** Moves the map by pixels; positive `dx` moves it to the right. */
export function pan(viewport: Viewport, dx: number, dy: number): Viewport {
  return {
    ...viewport,
    x: viewport.x - dx * viewport.unitsPerPixel,
    y: viewport.y - dy * viewport.unitsPerPixel,
  }
}

/** The visible box of the map. */
export function boxOf({ x, y, unitsPerPixel }: Viewport, { width, height }: Size): Box {
  const halfWidth = (width / 2) * unitsPerPixel
  const halfHeight = (height / 2) * unitsPerPixel
  return { left: x - halfWidth, top: y - halfHeight, right: x + halfWidth, bottom: y + halfHeight }
}

/** The smallest box around both. */
export function around(a: Box | undefined, b: Box | undefined): Box | undefined {
  if (!a || !b) return a ?? b
  return {
    left: Math.min(a.left, b.left),
    top: Math.min(a.top, b.top),
    right: Math.max(a.right, b.right),
    bottom: Math.max(a.bottom, b.bottom),
  }
}
