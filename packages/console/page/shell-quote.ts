/** A text as one word of a POSIX shell; in single quotes unless it is a plain word. */
export function quoteForShell(text: string): string {
  // a shell changes nothing inside of single quotes; a single quote itself must be outside of them
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
