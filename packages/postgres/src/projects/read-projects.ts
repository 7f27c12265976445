import type { Database } from '../connection/database.ts'

/** A row of a statement over all projects. */
export interface ProjectRow {
  project: number
}

/** Projects that one statement looks at. */
const pageProjectsMax = 1_000
/** Below the number of every project. */
const beforeProjects = -(2 ** 31) - 1

/**
 * Reads all projects in the order of their numbers, a bounded part of them with each statement. Its first values are the
 * number of the project before and the limit.
 */
export async function* readProjects<Row extends ProjectRow>(
  { query }: Pick<Database, 'query'>,
  name: string,
  ...values: unknown[]
): AsyncGenerator<Row[]> {
  for (let last: number | undefined = beforeProjects; last !== undefined; ) {
    const page: Row[] = await query<Row>(name, [last, pageProjectsMax, ...values])
    yield page
    last = page.at(-1)?.project
  }
}

/** The ids of the rows that have one, in the order of their bytes. */
export async function listProjects(database: Pick<Database, 'query'>, name: string): Promise<string[]> {
  const ids: string[] = []
  for await (const page of readProjects<ProjectRow & { project_id: string | null }>(database, name)) {
    for (const { project_id: id } of page) if (id !== null) ids.push(id)
  }
  // ASCII
  return ids.sort()
}
