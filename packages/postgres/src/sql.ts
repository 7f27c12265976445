import { readdirSync, readFileSync } from 'node:fs'

/** The statements of `sql/queries`, by the name in the line `-- name:` above each. */
export const queries: ReadonlyMap<string, string> = new Map(
  readFolder('queries').flatMap(({ text }) =>
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

/** The numbered steps of `sql/migrations`, in order. */
export const migrations: readonly { version: number; name: string; sql: string }[] = readFolder('migrations').map(
  ({ file, text }) => ({ version: Number.parseInt(file, 10), name: file, sql: text }),
)

/** The files of a folder of `sql`, which is next to `src` and `dist`. */
function readFolder(folder: string): { file: string; text: string }[] {
  const url = new URL(`../sql/${folder}/`, import.meta.url)
  return readdirSync(url)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => ({ file, text: readFileSync(new URL(file, url), 'utf8') }))
}
