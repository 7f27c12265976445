import { useEffect, useState } from 'preact/hooks'
import type { PartColors } from '../../heat/draw-parts.ts'
import type { Theme } from './draw-heat.ts'

const dark = () => matchMedia('(prefers-color-scheme: dark)')

/** The colours of the page, for canvases. */
export function useTheme(): Theme {
  const [theme, setTheme] = useState(readTheme)
  useEffect(() => {
    const query = dark()
    const update = () => setTheme(readTheme())
    query.addEventListener('change', update)
    return () => query.removeEventListener('change', update)
  }, [])
  return theme
}

export function partColors({ isDark }: Pick<Theme, 'isDark'>): PartColors {
  return isDark
    ? { fill: 'rgb(164 173 186 / 0.09)', line: 'rgb(164 173 186 / 0.42)' }
    : { fill: 'rgb(60 70 90 / 0.07)', line: 'rgb(60 70 90 / 0.38)' }
}

function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement)
  const read = (name: string) => style.getPropertyValue(name).trim()
  return {
    isDark: dark().matches,
    background: read('--background'),
    text: read('--text'),
    muted: read('--muted'),
    border: read('--border'),
  }
}
