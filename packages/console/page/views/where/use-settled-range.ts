import { useMemo, useState } from 'preact/hooks'
import { parseRange, type Range, type SpanName, spans } from '../../range.ts'

/** The ends of spans up to now. */
const ends = new Map<SpanName, number>()
/** The part of a span after which it ends later. */
const staleShare = 0.05

/**
 * The range in the address. One that ends now keeps its end while the view shows it, and for a twentieth of its length
 * after that, so that what was read of it stays of use; `renew` moves it.
 */
export function useSettledRange(query: URLSearchParams): { range: Range; renew(): void } {
  const [round, setRound] = useState(0)
  const range = useMemo(() => {
    const { choice, ...range } = parseRange(query, Date.now(), '14d')
    if (typeof choice !== 'string') return { choice, ...range }
    const end = ends.get(choice) ?? 0
    if (range.to - end > staleShare * spans[choice]) {
      ends.set(choice, range.to)
      return { choice, ...range }
    }
    return { choice, ...range, from: end - spans[choice], to: end }
  }, [query.get('range'), query.get('from'), query.get('to'), round])
  function renew(): void {
    ends.clear()
    setRound((count) => count + 1)
  }
  return { range, renew }
}
