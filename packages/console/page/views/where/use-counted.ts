import type { Activity } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { type Range, spans } from '../../range.ts'
import type { SampleQuery } from '../../worker/samples.ts'

/** Returns a function for the server's count of the events of a query in a range. */
export function useCounted({ from, to }: Range): (query: SampleQuery | undefined) => number | undefined {
  const { data } = useLoaded<Activity | undefined>(
    async (api, signal) =>
      to - from > spans['14d'] ? undefined : api.json('v1/activity', { query: { from, to, by: 'build' }, signal }),
    [from, to],
  )
  return (query) => data && query && countOf(data, query)
}

/** Undefined if there are further filters, or some events are counted without a build. */
function countOf({ groups = [] }: Activity, { filter: { buildId, ...others } }: SampleQuery): number | undefined {
  const isFiltered = Object.values(others).some((value) => value !== undefined)
  if (isFiltered || groups.some(({ name }) => name === null)) return undefined
  return groups.find(({ name }) => name === buildId)?.accepted
}
