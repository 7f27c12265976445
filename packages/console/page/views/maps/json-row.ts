import { formatCountOf } from '../../format.ts'
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

/** Characters that reorder others, so that a name could pretend to be another one. */
const reordering = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g

/** Escapes control characters, lone surrogates and invisible characters with effects. */
function quoted({ text, isCut }: CutText): string {
  const escaped = JSON.stringify(text).replace(reordering, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
  return isCut ? `${escaped.slice(0, -1)}…` : escaped
}

/** `12,345 elements`, `1 member`. */
export function describeCount({ type, count }: Pick<JsonValue, 'type' | 'count'>): string {
  return formatCountOf(count, type === 'object' ? 'member' : 'element')
}
