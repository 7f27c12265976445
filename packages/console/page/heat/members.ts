import { formatPointer } from '../json-pointer.ts'

/** One member of an event and its type. */
export interface Member {
  pointer: string
  kind: 'string' | 'number' | 'boolean' | 'null' | 'array' | 'object'
}

const membersMax = 60

/** The members of a JSON value, with those of its objects and short arrays, at most 60. */
export function listMembers(value: unknown): Member[] {
  const members: Member[] = []
  visit(value, [])
  return members

  function visit(at: unknown, tokens: readonly string[]): void {
    if (members.length >= membersMax) return
    const kind = kindOf(at)
    const isOpened = kind === 'object' || (kind === 'array' && (at as unknown[]).length <= 3)
    if (tokens.length > 0 && !isOpened) members.push({ pointer: formatPointer(tokens), kind })
    if (isOpened) for (const [name, member] of Object.entries(at as object)) visit(member, [...tokens, name])
  }
}

function kindOf(value: unknown): Member['kind'] {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value as Member['kind']
}
