/** Rows rendered above and below the visible ones, for fast scrolling. */
const marginRows = 8

/** The rows of a list to render: from `first` (inclusive) to `end` (exclusive). */
export function visibleRows(
  { scrollTop, height, rowHeight }: { scrollTop: number; height: number; rowHeight: number },
  count: number,
): { first: number; end: number } {
  const first = Math.max(0, Math.min(count, Math.floor(scrollTop / rowHeight)) - marginRows)
  return { first, end: Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + marginRows) }
}

/** The scroll position that makes a row fully visible. */
export function scrollToRow(
  { scrollTop, height, rowHeight }: { scrollTop: number; height: number; rowHeight: number },
  row: number,
): number {
  const top = row * rowHeight
  return Math.max(Math.min(scrollTop, top), top + rowHeight - height)
}

/** The row that a key selects after `row`, -1 meaning none; undefined for other keys. */
export function rowAfterKey(key: string, row: number, count: number, pageRows: number): number | undefined {
  const moves: Record<string, number> = {
    ArrowDown: row + 1,
    ArrowUp: row - 1,
    PageDown: row + pageRows,
    PageUp: row - pageRows,
    Home: 0,
    End: count - 1,
    Enter: row,
    ' ': row,
  }
  const next = moves[key]
  if (next === undefined || count === 0) return undefined
  return Math.max(0, Math.min(count - 1, next))
}
