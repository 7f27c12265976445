import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'

/** A table below its summary. The rows are rendered only while it is open. */
export function DetailsTable({
  summary,
  head,
  rows,
}: {
  summary: string
  head: readonly string[]
  /** Each with a cell for each of `head`. */
  rows: () => ComponentChildren
}) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && (
        <table>
          <thead>
            <tr>
              {head.map((name, index) => (
                <th scope="col" class={index > 0 ? 'number' : undefined} key={name}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{rows()}</tbody>
        </table>
      )}
    </details>
  )
}
