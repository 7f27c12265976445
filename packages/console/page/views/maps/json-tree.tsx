import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { RequestError } from '../../api/request-error.ts'
import { formatCount } from '../../format.ts'
import { Failure } from '../../parts/notice.tsx'
import '../../parts/json-text.css'
import { useScroll } from '../../parts/use-scroll.ts'
import { scrollToRow, visibleRows } from '../../parts/visible-rows.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import { type JsonValue, sliceLength } from '../../worker/json-document.ts'
import { describeCount, nameText, valueText } from './json-row.ts'
import { JsonValueDetails } from './json-value-details.tsx'
import { createTree, isBranch, pressKey, type Row, type Tree } from './tree.ts'

const rowHeight = 26

/** A JSON document as a tree: only the visible rows are in the page, the rest stays in the worker. */
export function JsonTree({ root, callWorker }: { root: JsonValue; callWorker: CallWorker }) {
  const [, render] = useState(0)
  const [error, setError] = useState<RequestError>()
  const tree = useMemo(() => {
    async function load(pointer: string, from: number): Promise<JsonValue[]> {
      try {
        return await callWorker('listChildren', { pointer, from })
      } catch (error) {
        if (error instanceof RequestError) setError(error)
        return []
      }
    }
    return createTree(root, { load, sliceLength, onChange: () => render((count) => count + 1) })
  }, [root, callWorker])
  useEffect(() => void tree.toggle(tree.active()), [tree])
  return (
    <>
      {error && <Failure error={error} />}
      <PointerForm tree={tree} callWorker={callWorker} />
      <div class="json-tree">
        <TreeRows tree={tree} />
        <JsonValueDetails item={tree.active().item} callWorker={callWorker} />
      </div>
    </>
  )
}

function PointerForm({ tree, callWorker }: { tree: Tree; callWorker: CallWorker }) {
  const [problem, setProblem] = useState('')
  async function go(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const pointer = String(new FormData(event.currentTarget as HTMLFormElement).get('pointer')).trim()
    const path = await callWorker('findPointer', pointer)
    setProblem(path ? '' : 'There is nothing at this path.')
    if (path) await tree.reveal(path)
  }
  return (
    <form class="controls" onSubmit={go}>
      <label>
        Go to a path (JSON Pointer)
        <input name="pointer" class="mono" autocomplete="off" spellcheck={false} placeholder="/parts/4711/position" />
      </label>
      <button type="submit">Go</button>
      <span role="status">{problem}</span>
    </form>
  )
}

function TreeRows({ tree }: { tree: Tree }) {
  const box = useRef<HTMLDivElement>(null)
  const { scrollTop, height } = useScroll(box)
  const rows = tree.rows()
  const active = tree.active()
  const activeIndex = rows.indexOf(active)
  const hasFocus = box.current?.contains(document.activeElement)
  useLayoutEffect(() => {
    const { current } = box
    if (current) {
      const { scrollTop, clientHeight } = current
      current.scrollTop = scrollToRow({ scrollTop, height: clientHeight, rowHeight }, activeIndex)
    }
    if (hasFocus) document.getElementById(active.id)?.focus()
  }, [active.id, activeIndex])

  function press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    if (pressKey(tree, event.key, Math.floor(height / rowHeight) - 1)) event.preventDefault()
  }
  function click({ target }: MouseEvent): void {
    const id = (target as Element).closest('[role=treeitem]')?.id
    const row = rows.find((each) => each.id === id)
    if (!row) return
    tree.activate(row.id)
    void tree.toggle(row)
  }

  const { first, end } = visibleRows({ scrollTop, height, rowHeight }, rows.length)
  const indexes = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index)
  // the row with the focus stays, or the keyboard would lose its place
  if (activeIndex < first || activeIndex >= end) indexes.push(activeIndex)
  return (
    <div class="tree-box" ref={box}>
      <div
        class="tree json"
        role="tree"
        aria-label="Content of the map"
        style={{ height: `${rows.length * rowHeight}px` }}
        onKeyDown={press}
        onClick={click}
      >
        {indexes.map((index) => {
          const row = rows[index] as Row
          return <TreeRow key={row.id} row={row} top={index * rowHeight} isActive={row === active} />
        })}
      </div>
    </div>
  )
}

interface TreeRowProps {
  row: Row
  top: number
  isActive: boolean
}

function TreeRow({ row, top, isActive }: TreeRowProps) {
  const { id, item, more } = row
  const level = more ? item.level + 1 : item.level
  const isExpandable = isBranch(item) && !more
  return (
    <div
      id={id}
      class="row"
      role="treeitem"
      tabIndex={isActive ? 0 : -1}
      aria-level={level}
      aria-selected={isActive}
      {...(isExpandable && { 'aria-expanded': item.isOpen })}
      {...(!more && { 'aria-posinset': item.index + 1, 'aria-setsize': item.parent?.value.count ?? 1 })}
      style={{ top: `${top}px`, '--level': level - 1 }}
    >
      <span class="marker" aria-hidden="true">
        {isExpandable ? (item.isOpen ? '▾' : '▸') : ''}
      </span>
      {more ? <MoreText row={row} /> : <ValueText row={row} />}
    </div>
  )
}

function MoreText({ row: { item, more } }: { row: Row }) {
  const left = more === 'before' ? item.from : item.value.count - item.from - item.children.length
  return (
    <span class="more">
      Show {formatCount(Math.min(left, sliceLength))} {more === 'before' ? 'before' : 'more'} ({formatCount(left)} left)
    </span>
  )
}

function ValueText({ row: { item } }: { row: Row }) {
  const { value, parent, index } = item
  return (
    <>
      {parent && (
        <>
          <span class={value.name ? 'name' : 'index'}>{nameText(value, index)}</span>
          <span class="colon">: </span>
        </>
      )}
      {value.type === 'object' || value.type === 'array' ? (
        <span class="summary">
          {value.type === 'object' ? '{ }' : '[ ]'} {describeCount(value)}
        </span>
      ) : (
        <span class={value.type === 'string' || value.type === 'number' ? value.type : 'literal'}>
          {valueText(value)}
        </span>
      )}
    </>
  )
}
