import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Api } from '../../api/api.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatCount } from '../../format.ts'
import { Content } from '../../parts/notice.tsx'

type Column = string | { title: string; isNumber: true }

interface Page<Row> {
  rows: Row[]
  next: string | null
}

interface PagedTableProps<Row> {
  caption: string
  columns: readonly Column[]
  /** The query of the rows; when it changes, the table returns to the first page. */
  query?: string
  load(cursor: string | undefined, api: Api, signal: AbortSignal): Promise<Page<Row>>
  /** Shown instead of a table without rows. */
  empty: ComponentChildren
  /** Renders a `<tr>`. Below 40rem, each `<td>` shows its `data-label`, the name of the column. */
  children: (row: Row) => ComponentChildren
}

/** A table that shows one page of a list at a time. */
export function PagedTable<Row>(props: PagedTableProps<Row>) {
  // another query resets the pages
  return <Pages key={props.query} {...props} />
}

function Pages<Row>({ caption, columns, load, empty, children }: PagedTableProps<Row>) {
  /** The cursors of the pages up to the current one. */
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined])
  const cursor = cursors.at(-1)
  const loaded = useLoaded((api, signal) => load(cursor, api, signal), [cursor])
  const isFirst = cursors.length === 1
  return (
    <Content loaded={loaded}>
      {({ rows, next }) => (
        <>
          {rows.length === 0 && isFirst && next === null ? (
            <div class="notice empty">{empty}</div>
          ) : (
            <div class="scroll">
              <table class="paged cards">
                <caption>{caption}</caption>
                <thead>
                  <tr>
                    {columns.map((column) => (
                      <Heading key={titleOf(column)} column={column} />
                    ))}
                  </tr>
                </thead>
                <tbody>{rows.map(children)}</tbody>
              </table>
            </div>
          )}
          {(!isFirst || next !== null) && (
            <p class="line pages">
              <button type="button" disabled={isFirst} onClick={() => setCursors(cursors.slice(0, -1))}>
                Previous page
              </button>
              <span>Page {formatCount(cursors.length)}</span>
              <button
                type="button"
                disabled={next === null}
                onClick={() => setCursors([...cursors, next ?? undefined])}
              >
                Next page
              </button>
            </p>
          )}
        </>
      )}
    </Content>
  )
}

function Heading({ column }: { column: Column }) {
  return (
    <th scope="col" class={typeof column === 'string' ? undefined : 'number'}>
      {titleOf(column)}
    </th>
  )
}

function titleOf(column: Column): string {
  return typeof column === 'string' ? column : column.title
}
