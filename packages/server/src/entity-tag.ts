/** The entity tag of bytes with this digest: `"sha256:…"`, a strong one. */
export function entityTag(digest: string): string {
  return `"${digest}"`
}

/** Whether the list of `If-None-Match` or `If-Match` has the tag, or is `*`. The first compares weakly, the second not. */
export function listsTag(list: string, tag: string, comparison: 'weak' | 'strong'): boolean {
  if (list.trim() === '*') return true
  const tags = list.match(/(?:W\/)?"[^"]*"/g) ?? []
  return tags.some((each) => each === tag || (comparison === 'weak' && each === `W/${tag}`))
}
