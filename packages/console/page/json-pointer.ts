// JSON Pointers: RFC 6901.

/** The tokens of a pointer, `/a~1b/0` → `['a/b', '0']`; undefined for other text. */
export function parsePointer(pointer: string): string[] | undefined {
  if (!/^(\/([^~]|~[01])*)?$/s.test(pointer)) return undefined
  return pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The inverse of `parsePointer`. */
export function formatPointer(tokens: readonly string[]): string {
  return tokens.map((token) => `/${token.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}
