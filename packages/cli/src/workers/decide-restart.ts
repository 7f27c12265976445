/** A worker that ends within this time is not restarted at once. */
export const quickEndMs = 10_000
/** How many times in a row a worker may end so soon while no other worker accepts requests. */
export const quickEndsMax = 5
const pauseMsMin = 100
const pauseMsMax = 5000

/**
 * How long to wait before a worker is restarted; undefined to give up, but not while others accept requests: a server
 * that starts again would meet what keeps the worker from starting, such as an invalid certificate. `quickEnds` counts
 * how often in a row it ended within {@link quickEndMs}.
 */
export function decideRestart(quickEnds: number, othersListen: boolean): number | undefined {
  if (quickEnds >= quickEndsMax && !othersListen) return undefined
  return quickEnds === 0 ? 0 : Math.min(pauseMsMax, pauseMsMin * 2 ** (quickEnds - 1))
}
