import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'

/** The visible part of a scrolled box, in CSS pixels. `update` reads it immediately. */
export function useScroll(box: RefObject<HTMLElement | null>): { scrollTop: number; height: number; update(): void } {
  const [scroll, setScroll] = useState({ scrollTop: 0, height: 600 })
  function update(): void {
    if (box.current) setScroll({ scrollTop: box.current.scrollTop, height: box.current.clientHeight })
  }
  useEffect(() => {
    const element = box.current
    if (!element) return
    const observer = new ResizeObserver(update)
    observer.observe(element)
    element.addEventListener('scroll', update, { passive: true })
    return () => {
      observer.disconnect()
      element.removeEventListener('scroll', update)
    }
  }, [])
  return { ...scroll, update }
}
