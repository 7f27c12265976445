/** A text as one word of a POSIX shell, in single quotes unless it is a plain word. */
export function quoteForShell(text: string): string {
  // within single quotes a shell changes nothing; a single quote itself stands outside of them
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
