/** Deeper levels stay on one line: indenting every depth would take space quadratic in the depth. */
const indentedLevelsMax = 64
/** A list of scalars up to this length stays on one line. */
const shortListCharsMax = 60

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+|"/g
const flatList = /^\[(?:[^[\]{}"]|"[^"\\]*(?:\\.[^"\\]*)*")*\]/

/**
 * Indents a JSON text by two spaces per level. Only whitespace between tokens changes: numbers, escapes and the order
 * of members stay as they were sent. Never throws: text that is not JSON is split at its punctuation.
 */
export function indentJson(text: string): string {
  let indented = ''
  let before = ''
  let depth = 0
  let shortListEnd = 0
  for (const { 0: spelling, index } of text.matchAll(token)) {
    const isInline = index < shortListEnd || depth > indentedLevelsMax
    if (spelling === '[' && !isInline) shortListEnd = index + shortListLength(text, index)
    const levels = isCloser(spelling) ? Math.max(0, depth - 1) : depth
    indented += spaceBetween(before, spelling, isInline ? undefined : `\n${'  '.repeat(levels)}`) + spelling
    depth = levels + (isOpener(spelling) ? 1 : 0)
    before = spelling
  }
  return indented
}

/** `lineBreak` is undefined if everything stays on one line. */
function spaceBetween(before: string, next: string, lineBreak: string | undefined): string {
  if (before === ':') return ' '
  if (before === ',') return isCloser(next) ? '' : (lineBreak ?? ' ')
  if (isOpener(before) !== isCloser(next)) return lineBreak ?? ''
  return ''
}

function isOpener(spelling: string): boolean {
  return spelling === '{' || spelling === '['
}

function isCloser(spelling: string): boolean {
  return spelling === '}' || spelling === ']'
}

/** The length of the list at `index`; 0 if it is too long for one line or contains lists or objects. */
function shortListLength(text: string, index: number): number {
  return flatList.exec(text.slice(index, index + shortListCharsMax))?.[0].length ?? 0
}

/**
 * The members of an object in their exact spelling, as `name: value`, without those in `without`, truncated after
 * `charsMax` characters.
 */
export function summarizeMembers(text: string, without: ReadonlySet<string>, charsMax: number): string {
  let summary = ''
  let depth = 0
  let member = ''
  for (const { 0: spelling } of text.matchAll(token)) {
    if (summary.length + member.length > charsMax) break
    if (isCloser(spelling)) depth--
    if (depth === 1 && spelling === ',') flush()
    else if (depth > 0) member += spelling === ':' || spelling === ',' ? `${spelling} ` : spelling
    if (isOpener(spelling)) depth++
  }
  flush()
  return summary.length > charsMax ? `${summary.slice(0, charsMax)}…` : summary

  function flush(): void {
    const name = /^"([^"]*)": /.exec(member)
    if (name && !without.has(name[1] ?? '')) summary += `${summary && '  '}${name[1]}: ${member.slice(name[0].length)}`
    member = ''
  }
}
