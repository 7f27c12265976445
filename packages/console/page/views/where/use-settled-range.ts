import { useMemo, useState } from 'preact/hooks'
import { parseRange, type Range, type SpanName, spans } from '../../range.ts'

/** The kept ends of spans up to now. */
const ends = new Map<SpanName, number>()
/** The end of a span is kept until it is this fraction of the span's length old. */
const staleShare = 0.05

/**
 * The range in the address. If it ends now, its end is kept while the view shows it, and for a twentieth of its length,
 * so that data read for it stays usable; `renew` moves the end.
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
