import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Api } from '../../api/api.ts'
import { useLoaded } from '../../api/use-api.ts'
import { Content } from '../../parts/notice.tsx'

type Column = string | { title: string; isNumber: true }

interface Page<Row> {
  rows: Row[]
  next: string | null
}

export interface PagedTableProps<Row> {
  caption: string
  columns: readonly Column[]
  load(cursor: string | undefined, api: Api, signal: AbortSignal): Promise<Page<Row>>
  /** Shown in place of a table without rows. */
  empty: ComponentChildren
  /** Renders a `<tr>`. */
  children: (row: Row) => ComponentChildren
}

/** A table that loads its next page on request. */
export function PagedTable<Row>(props: PagedTableProps<Row>) {
  const first = useLoaded((api, signal) => props.load(undefined, api, signal), [])
  return (
    <Content loaded={first}>
      {(page) =>
        page.rows.length === 0 && page.next === null ? (
          <div class="notice empty">{props.empty}</div>
        ) : (
          <div class="scroll">
            <table class="paged">
              <caption>{props.caption}</caption>
              <thead>
                <tr>
                  {props.columns.map((column) => (
                    <Heading key={titleOf(column)} column={column} />
                  ))}
                </tr>
              </thead>
              <Rows {...props} page={page} />
            </table>
          </div>
        )
      }
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

function Rows<Row>({ page, ...props }: PagedTableProps<Row> & { page: Page<Row> }) {
  const [isMore, setMore] = useState(false)
  return (
    <>
      <tbody>{page.rows.map(props.children)}</tbody>
      {page.next !== null &&
        (isMore ? (
          <NextRows {...props} cursor={page.next} />
        ) : (
          <tbody>
            <tr>
              <td colSpan={props.columns.length}>
                <button type="button" onClick={() => setMore(true)}>
                  Show more
                </button>
              </td>
            </tr>
          </tbody>
        ))}
    </>
  )
}

function NextRows<Row>({ cursor, ...props }: PagedTableProps<Row> & { cursor: string }) {
  const loaded = useLoaded((api, signal) => props.load(cursor, api, signal), [cursor])
  if (loaded.data) return <Rows {...props} page={loaded.data} />
  return (
    <tbody>
      <tr>
        <td colSpan={props.columns.length}>
          <Content loaded={loaded}>{() => null}</Content>
        </td>
      </tr>
    </tbody>
  )
}
