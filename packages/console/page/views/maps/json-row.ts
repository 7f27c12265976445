import { formatCountOf } from '../../format.ts'
import { visibleText } from '../../visible-text.ts'
import type { CutText, JsonValue } from '../../worker/json-document.ts'

/** The name of a member in quotes, or the position of an element. */
export function nameText({ name }: Pick<JsonValue, 'name'>, index: number): string {
  return name ? quoted(name) : String(index)
}

/** A scalar; strings in quotes. */
export function valueText({ type, text }: Pick<JsonValue, 'type' | 'text'>): string {
  if (type === 'string') return quoted(text)
  return text.isCut ? `${text.text}…` : text.text
}

function quoted({ text, isCut }: CutText): string {
  const escaped = visibleText(JSON.stringify(text))
  return isCut ? `${escaped.slice(0, -1)}…` : escaped
}

/** `12,345 elements`, `1 member`. */
export function describeCount({ type, count }: Pick<JsonValue, 'type' | 'count'>): string {
  return formatCountOf(count, type === 'object' ? 'member' : 'element')
}
