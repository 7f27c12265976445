import type { JsonValue } from '../../worker/json-document.ts'

/** A value in the tree, with those of its members or elements that were loaded. */
export interface TreeItem {
  value: JsonValue
  parent: TreeItem | undefined
  /** The position among the members or elements of the parent. */
  index: number
  /** From 1. */
  level: number
  isOpen: boolean
  /** The positions `from` to `from + children.length` are loaded. */
  from: number
  children: TreeItem[]
}

/** A line of the tree: a value, or the choice to show more of an open one, before or after the shown ones. */
export type Row = { id: string; item: TreeItem; more?: 'before' | 'after' }

/** Loads a slice of the members or elements of the value at a JSON Pointer. */
export type LoadChildren = (pointer: string, from: number) => Promise<JsonValue[]>

export interface Tree {
  /** The visible rows, from the top. */
  rows(): readonly Row[]
  /** The row that the keyboard acts on. */
  active(): Row
  activate(id: string): void
  /** Opens or closes a value, or shows more. */
  toggle(row: Row): Promise<void>
  /** Opens the containers of the value at these positions, and makes it active. */
  reveal(path: readonly number[]): Promise<void>
}

export interface TreeOptions {
  load: LoadChildren
  /** How many `load` returns, unless there are fewer. */
  sliceLength: number
  onChange(): void
}

export function createTree(value: JsonValue, { load, sliceLength, onChange }: TreeOptions): Tree {
  const root = createItem(value, undefined, 0)
  const loadSlice = (item: TreeItem, from: number) => loadItems(load, item, from)
  let rows: Row[] | undefined
  let activeId = idOf(root)

  function changed(): void {
    rows = undefined
    onChange()
  }
  function allRows(): Row[] {
    rows ??= rowsOf(root)
    return rows
  }
  function activeIndex(): number {
    const index = allRows().findIndex(({ id }) => id === activeId)
    // the active row may be in a closed container
    return Math.max(0, index)
  }
  function activate(id: string): void {
    activeId = id
    onChange()
  }

  async function setOpen(item: TreeItem, isOpen: boolean): Promise<void> {
    if (item.isOpen === isOpen || !isBranch(item)) return
    if (isOpen && item.children.length === 0) item.children = await loadSlice(item, item.from)
    item.isOpen = isOpen
    // the active row must stay visible
    if (!isOpen && isBelow(allRows()[activeIndex()]?.item, item)) activeId = idOf(item)
    changed()
  }

  async function showMore({ id, item, more }: Row): Promise<void> {
    const from = more === 'before' ? Math.max(0, item.from - sliceLength) : item.from + item.children.length
    const slice = await loadSlice(item, from)
    // a second press while the first loads
    if (more === 'after' && from !== item.from + item.children.length) return
    if (more === 'before' && from >= item.from) return
    if (more === 'before') {
      item.children = [...slice.slice(0, item.from - from), ...item.children]
      item.from = from
    } else item.children = [...item.children, ...slice]
    const [first] = slice
    if (activeId === id && first) activeId = idOf(more === 'after' ? first : (slice.at(-1) ?? first))
    changed()
  }

  async function reveal(path: readonly number[]): Promise<void> {
    let item = root
    for (const index of path) {
      if (index < item.from || index >= item.from + item.children.length) {
        item.from = Math.floor(index / sliceLength) * sliceLength
        item.children = await loadSlice(item, item.from)
      }
      item.isOpen = true
      item = item.children[index - item.from] as TreeItem
    }
    activeId = idOf(item)
    changed()
  }

  function toggle(row: Row): Promise<void> {
    return row.more ? showMore(row) : setOpen(row.item, !row.item.isOpen)
  }

  return { rows: allRows, active: () => allRows()[activeIndex()] as Row, activate, toggle, reveal }
}

async function loadItems(load: LoadChildren, item: TreeItem, from: number): Promise<TreeItem[]> {
  const values = await load(item.value.pointer, from)
  return values.map((value, index) => createItem(value, item, from + index))
}

/** Moves, opens and closes as the tree pattern of ARIA has it. False for keys that mean nothing here. */
export function pressKey(tree: Tree, key: string, pageRows: number): boolean {
  const rows = tree.rows()
  const row = tree.active()
  const { item, more } = row
  const index = rows.indexOf(row)
  const move = (to: number) => tree.activate((rows[Math.max(0, Math.min(rows.length - 1, to))] as Row).id)
  const moves: Record<string, number> = {
    ArrowDown: index + 1,
    ArrowUp: index - 1,
    Home: 0,
    End: Number.POSITIVE_INFINITY,
    PageDown: index + pageRows,
    PageUp: index - pageRows,
  }
  const target = moves[key]
  if (target !== undefined) move(target)
  else if (key === 'Enter' || key === ' ') void tree.toggle(row)
  else if (key === 'ArrowRight' && !more) {
    if (item.isOpen) move(index + 1)
    else void tree.toggle(row)
  } else if (key === 'ArrowLeft') {
    if (item.isOpen && !more) void tree.toggle(row)
    else tree.activate(idOf(more ? item : (item.parent ?? item)))
  } else return false
  return true
}

function createItem(value: JsonValue, parent: TreeItem | undefined, index: number): TreeItem {
  return { value, parent, index, level: (parent?.level ?? 0) + 1, isOpen: false, from: 0, children: [] }
}

/** Whether there is anything to open. */
export function isBranch({ value }: TreeItem): boolean {
  return value.count > 0
}

function idOf({ value }: TreeItem): string {
  return `value-${value.pointer}`
}

function isBelow(item: TreeItem | undefined, ancestor: TreeItem): boolean {
  for (let each = item; each; each = each.parent) if (each === ancestor) return true
  return false
}

/** Not recursive: nesting may be deeper than the stack. */
function rowsOf(root: TreeItem): Row[] {
  const rows: Row[] = []
  const waiting: Row[] = [{ id: idOf(root), item: root }]
  for (let row = waiting.pop(); row; row = waiting.pop()) {
    rows.push(row)
    const { item, more } = row
    if (more || !item.isOpen) continue
    if (item.from + item.children.length < item.value.count) {
      waiting.push({ id: `after-${item.value.pointer}`, item, more: 'after' })
    }
    for (const child of item.children.toReversed()) waiting.push({ id: idOf(child), item: child })
    if (item.from > 0) waiting.push({ id: `before-${item.value.pointer}`, item, more: 'before' })
  }
  return rows
}
