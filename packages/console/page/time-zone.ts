import { useLayoutEffect, useState } from 'preact/hooks'

const name = 'ingest-utc'
const listeners = new Set<() => void>()
let isChosen = readChoice()

/** Whether the page shows times in UTC: as chosen in this tab, or else according to the browser's time zone. */
export function isUtc(): boolean {
  return isChosen
}

export function setUtc(isUtc: boolean): void {
  isChosen = isUtc
  try {
    sessionStorage.setItem(name, String(isUtc))
  } catch {
    // without storage, the choice ends with a reload
  }
  for (const listener of listeners) listener()
}

/** The time zone in which the page shows times: `Europe/Berlin`, or `UTC`. */
export function timeZone(): string {
  return isChosen ? 'UTC' : browserTimeZone()
}

export function browserTimeZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone
}

/** The time zone, for a component, which rerenders when it changes. */
export function useTimeZone(): string {
  const [, render] = useState(0)
  useLayoutEffect(() => {
    const listener = () => render((count) => count + 1)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [])
  return timeZone()
}

// tests run without a page
function readChoice(): boolean {
  try {
    return globalThis.sessionStorage?.getItem(name) === 'true'
  } catch {
    return false
  }
}
