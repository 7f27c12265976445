import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

/** Gestures on the map, in CSS pixels of the element. */
export interface Gestures {
  onPan(dx: number, dy: number): void
  /** Factors over 1 zoom in. */
  onZoom(factor: number, at: { x: number; y: number }): void
  /** A press without movement. */
  onClick(at: { x: number; y: number }): void
  /** Called with undefined when the pointer leaves. */
  onPoint(at: { x: number; y: number } | undefined): void
}

/** Detects dragging, pinching and the wheel. */
export function useGestures(element: RefObject<HTMLElement | null>, gestures: Gestures): void {
  const latest = useRef(gestures)
  latest.current = gestures
  useEffect(() => {
    const target = element.current
    return target ? listen(target, latest) : undefined
  }, [])
}

const clickPixels = 4

function listen(target: HTMLElement, latest: { current: Gestures }): () => void {
  const ending = new AbortController()
  const { signal } = ending
  const pointers = new Map<number, { x: number; y: number }>()
  /** Where the press started; undefined once it moves. */
  let pressed: { x: number; y: number } | undefined
  const placeOf = (event: MouseEvent) => {
    const { left, top } = target.getBoundingClientRect()
    return { x: event.clientX - left, y: event.clientY - top }
  }

  function move(event: PointerEvent): void {
    const at = placeOf(event)
    if (pressed && Math.hypot(at.x - pressed.x, at.y - pressed.y) > clickPixels) pressed = undefined
    if (pointers.has(event.pointerId)) {
      const before = middleOf(pointers)
      pointers.set(event.pointerId, at)
      const after = middleOf(pointers)
      latest.current.onPan(after.x - before.x, after.y - before.y)
      if (before.spread > 0 && after.spread > 0) latest.current.onZoom(after.spread / before.spread, after)
    }
    latest.current.onPoint(at)
  }

  target.addEventListener('pointermove', move, { signal })
  target.addEventListener(
    'pointerdown',
    (event) => {
      if (event.button !== 0) return
      target.setPointerCapture(event.pointerId)
      pointers.set(event.pointerId, placeOf(event))
      pressed = pointers.size === 1 ? placeOf(event) : undefined
    },
    { signal },
  )
  for (const name of ['pointerup', 'pointercancel'] as const) {
    target.addEventListener(name, ({ pointerId }) => void pointers.delete(pointerId), { signal })
  }
  target.addEventListener('pointerup', () => pressed && latest.current.onClick(pressed), { signal })
  target.addEventListener('pointerleave', () => latest.current.onPoint(undefined), { signal })
  target.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault()
      const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1)
      latest.current.onZoom(Math.exp(-pixels / 400), placeOf(event))
    },
    { signal, passive: false },
  )
  return () => ending.abort()
}

/** The middle of the pressed pointers, and their distance: 0 for a single one. */
function middleOf(pointers: ReadonlyMap<number, { x: number; y: number }>) {
  const [first, second] = [...pointers.values()]
  if (!first) return { x: 0, y: 0, spread: 0 }
  if (!second) return { ...first, spread: 0 }
  return {
    x: (first.x + second.x) / 2,
    y: (first.y + second.y) / 2,
    spread: Math.hypot(first.x - second.x, first.y - second.y),
  }
}
