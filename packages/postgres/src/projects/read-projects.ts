import type { Database } from '../connection/database.ts'

/** A row of a statement over all projects. */
export interface ProjectRow {
  project: number
}

/** Maximum number of projects that one statement examines. */
const pageProjectsMax = 1_000
/** Lower than the number of every project. */
const beforeProjects = -(2 ** 31) - 1

/**
 * Reads all projects in the order of their numbers, a bounded number with each statement. The first values of the
 * statement are the previous project's number and the limit.
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
  // the ids are ASCII
  return ids.sort()
}
