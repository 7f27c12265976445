/**
 * The reference tokens of a JSON Pointer (RFC 6901) such as `/player/id`; undefined for other text and for the empty
 * pointer.
 */
export function parsePointer(text: unknown): string[] | undefined {
  if (typeof text !== 'string' || !text.startsWith('/') || /~(?![01])/.test(text)) return undefined
  return text
    .slice(1)
    .split('/')
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
}
