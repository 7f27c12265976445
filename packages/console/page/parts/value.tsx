import type { TargetedClipboardEvent } from 'preact'
import { useMemo } from 'preact/hooks'
import { splitHidden } from '../visible-text.ts'
import './value.css'

/** Maximum number of escapes: more elements would take a noticeable pause to render. */
const escapesMax = 1_000

interface ValueProps {
  text: string
  /** Whether line breaks and tabs are kept. */
  isMultiline?: boolean
}

/**
 * A text from users, such as an id. It cannot reorder the text around it, and its hidden characters are shown as
 * escapes. Copying a selection yields the original characters, unless there are more than a thousand.
 */
export function Value(props: ValueProps) {
  return (
    <bdi onCopy={copyExactly}>
      <VisibleText {...props} />
    </bdi>
  )
}

/** A text of several lines from users, such as JSON, in the way of `Value`. It can be focused, to scroll by keyboard. */
export function Preformatted({ text }: { text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrolled by keyboard
    <pre tabIndex={0} onCopy={copyExactly}>
      <VisibleText text={text} isMultiline />
    </pre>
  )
}

/** A text with its hidden characters shown as escapes, for an element that isolates it. */
function VisibleText({ text, isMultiline = false }: ValueProps) {
  const parts = useMemo(() => splitHidden(text, isMultiline), [text, isMultiline])
  if (parts.length > 2 * escapesMax) return <>{parts.map(({ text }) => text).join('')}</>
  return <>{parts.map(({ text, isEscape }) => (isEscape ? <span class="escape">{text}</span> : text))}</>
}

/** Copies the selection, if it is inside of the element, with hidden characters instead of their escapes. */
function copyExactly(event: TargetedClipboardEvent<HTMLElement>): void {
  const selection = getSelection()
  if (!selection?.rangeCount || !event.clipboardData) return
  const range = selection.getRangeAt(0)
  if (!event.currentTarget.contains(range.commonAncestorContainer)) return
  const copied = range.cloneContents()
  for (const part of copied.querySelectorAll('.escape')) {
    // a partly selected escape is copied as text
    if (/^(\\u[\da-f]{4})+$/.test(part.textContent)) part.textContent = JSON.parse(`"${part.textContent}"`)
  }
  event.clipboardData.setData('text/plain', copied.textContent ?? '')
  event.preventDefault()
}
