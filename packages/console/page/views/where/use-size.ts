import { useEffect, useState } from 'preact/hooks'
import type { Size } from '../../heat/viewport.ts'

/** The size of an element, in CSS pixels, once it is visible. */
export function useSize(frame: { current: HTMLElement | null }): Size | undefined {
  const [size, setSize] = useState<Size>()
  useEffect(() => {
    const element = frame.current
    if (!element) return
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = element
      // ignore the size while the element is hidden
      if (width > 0 && height > 0) setSize({ width, height })
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return size
}
