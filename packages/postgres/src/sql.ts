import { readdirSync, readFileSync } from 'node:fs'

/** The statements of `sql/queries`, by the name in the line `-- name:` above each. */
export const queries: ReadonlyMap<string, string> = new Map(
  readFolder('queries').flatMap((text) =>
    text
      .split(/^-- name: /m)
      .slice(1)
      .map((section): [string, string] => {
        const end = section.indexOf('\n')
        return [section.slice(0, end).trim(), section.slice(end + 1).trim()]
      }),
  ),
)

/** A statement that waits for the synchronous standby if it returns rows. `$1` is the project's number. */
export function confirmed(statement: string): string {
  return `SELECT q.* FROM (${statement}) q, ingest.await_project_1($1::int)`
}

/** One step from a version of the schema to the next. */
export interface Migration {
  version: number
  sql: string
}

/** The numbered folders of `sql/migrations`, in order; the files of one are one migration. */
export const migrations: readonly Migration[] = list('migrations').map((folder) => ({
  version: Number.parseInt(folder, 10),
  sql: readFolder(`migrations/${folder}`).join('\n'),
}))

function list(folder: string): string[] {
  return readdirSync(urlOf(folder)).sort()
}

/** The texts of the files of a folder of `sql`, in the order of their names. */
function readFolder(folder: string): string[] {
  return list(folder).map((file) => readFileSync(new URL(file, urlOf(folder)), 'utf8'))
}

/** `sql` is next to `src` and `dist`. */
function urlOf(folder: string): URL {
  return new URL(`../sql/${folder}/`, import.meta.url)
}
