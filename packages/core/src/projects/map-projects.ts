/** Enough to share commits and round trips, and to leave database connections to others. */
const inFlightMax = 8

/**
 * Calls `run` for several projects at a time, and resolves with the results in the order of the projects. After an
 * error, it starts no more calls, and rejects once the calls in flight are settled.
 */
export async function mapProjects<Project, Result>(
  projects: readonly Project[],
  run: (project: Project) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const left = projects.entries()
  let hasFailed = false

  async function work(): Promise<void> {
    // all workers share one iterator
    for (const [i, project] of left) {
      if (hasFailed) return
      try {
        results[i] = await run(project)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
  }

  await settleAll(Array.from({ length: inFlightMax }, work))
  return results
}

/** Rejects with the first error, but only when all are settled: the caller may close their store then. */
export async function settleAll(promises: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(promises)
  await Promise.all(promises)
}
