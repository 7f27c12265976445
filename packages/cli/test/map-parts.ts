import { createHash } from 'node:crypto'

/** A map of about so many bytes, the same for the same seed. `moved` is the number of a part that stands elsewhere. */
export function mapOf(bytes: number, { seed = 1, moved = -1 } = {}): Buffer {
  const random = randomFrom(seed)
  const parts: string[] = []
  for (let size = 0; size < bytes; ) {
    const position = [random(), random(), random()]
    const part = { id: parts.length, position: parts.length === moved ? [1, 2, 3] : position, size: random() }
    const text = JSON.stringify(part)
    parts.push(text)
    size += text.length + 1
  }
  return Buffer.from(`{"parts":[${parts.join(',')}]}`)
}

export function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** A generator of D. H. Lehmer's kind, with the numbers of Park and Miller. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state
  }
}
