/** Fewer waits for commits and round trips than one at a time, and connections of a database are left to others. */
const inFlightMax = 8

/**
 * Calls `run` for each project, for several at once, and resolves with the results in the order of the projects. After an
 * error it calls no more, and rejects with it once the calls in flight are settled.
 */
export async function mapProjects<Project, Result>(
  projects: readonly Project[],
  run: (project: Project) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const left = projects.entries()
  let hasFailed = false

  async function work(): Promise<void> {
    // one iterator of all workers
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

/** Rejects with the first error, but not before all are settled: their store may be closed then. */
export async function settleAll(promises: readonly Promise<unknown>[]): Promise<void> {
  await Promise.allSettled(promises)
  await Promise.all(promises)
}
