/** Pieces of memory of one size that are used again. */
export interface SpareMemory {
  take(): Uint8Array
  /** Nobody looks at it any more. */
  giveBack(memory: Uint8Array): void
}

/**
 * Memory for bodies that come in one after another: what is made anew for each keeps the garbage collector busy, which
 * everybody feels. At most `max` pieces are kept while nobody uses them.
 */
export function createSpareMemory(bytes: number, max: number): SpareMemory {
  const spare: Uint8Array[] = []
  return {
    take: () => spare.pop() ?? Buffer.allocUnsafeSlow(bytes),
    giveBack(memory) {
      if (spare.length < max) spare.push(memory)
    },
  }
}
