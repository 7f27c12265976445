/**
 * A character that is invisible, or that reorders, breaks or blanks the text around it: controls, line separators, lone
 * surrogates, and characters that fonts may ignore, such as bidirectional and zero-width characters, tags and variation
 * selectors. The variation selector that makes ❤ an emoji is excepted.
 */
const hidden =
  /(?!\ufe0f)[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{DI}\u2800\ufff9-\ufffb]|(?<!(?!\p{Emoji_Presentation})\p{Extended_Pictographic})\ufe0f/gu
const hiddenInLines = new RegExp(`(?![\\t\\n]|\\r\\n)(?:${hidden.source})`, 'gu')

/** A part of a text: unchanged characters, or the visible escape of one. */
interface TextPart {
  text: string
  isEscape: boolean
}

/** Splits a text at its hidden characters. With `isMultiline`, line breaks and tabs are kept. */
export function splitHidden(text: string, isMultiline = false): TextPart[] {
  const parts: TextPart[] = []
  let end = 0
  for (const { 0: found, index } of text.matchAll(isMultiline ? hiddenInLines : hidden)) {
    if (index > end) parts.push({ text: text.slice(end, index), isEscape: false })
    parts.push({ text: escapeUnits(found), isEscape: true })
    end = index + found.length
  }
  if (end < text.length) parts.push({ text: text.slice(end), isEscape: false })
  return parts
}

/** The text with its hidden characters as escapes, such as `\u202e`: for attributes, options and canvases. */
export function visibleText(text: string): string {
  return text.replace(hidden, escapeUnits)
}

/** As in JSON: a character beyond 16 bits takes two escapes. */
function escapeUnits(text: string): string {
  return Array.from({ length: text.length }, (_, i) => {
    return `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`
  }).join('')
}
