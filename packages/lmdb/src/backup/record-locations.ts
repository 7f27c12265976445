import type { RowLocation } from './data-pages.ts'

/**
 * Where records are, by their numbers. Takes about 18 bytes for each number, in blocks for the numbers that occur: a `Map`
 * ends at 16.7 million entries.
 */
export interface RecordLocations {
  has(sequence: number): boolean
  get(sequence: number): RowLocation | undefined
  /** `transaction` is the one that wrote the row; 0 for a row of the tree of the log. */
  set(sequence: number, location: RowLocation, transaction: number): void
  /** The transaction of a location. */
  transactionOf(sequence: number): number
  /** The project of a record that was not found, where it is known. */
  projectOf(sequence: number): number | undefined
  setProject(sequence: number, project: number): void
  /** How many locations there are. */
  size(): number
}

const blockSize = 65_536

interface Block {
  /** 0 for none: page 0 has no row. */
  pages: Uint32Array
  indexes: Uint16Array
  transactions: Float64Array
  /** 0 for none. */
  projects: Uint32Array
}

export function createRecordLocations(): RecordLocations {
  const blocks = new Map<number, Block>()
  let size = 0
  const find = (sequence: number) => blocks.get(Math.floor(sequence / blockSize))

  function blockOf(sequence: number): Block {
    const block = find(sequence) ?? {
      pages: new Uint32Array(blockSize),
      indexes: new Uint16Array(blockSize),
      transactions: new Float64Array(blockSize),
      projects: new Uint32Array(blockSize),
    }
    blocks.set(Math.floor(sequence / blockSize), block)
    return block
  }

  function get(sequence: number): RowLocation | undefined {
    const block = find(sequence)
    const at = sequence % blockSize
    const page = block?.pages[at]
    return block && page ? { page, index: block.indexes[at] as number } : undefined
  }

  return {
    get,
    has: (sequence) => (find(sequence)?.pages[sequence % blockSize] ?? 0) > 0,
    set(sequence, { page, index }, transaction) {
      const block = blockOf(sequence)
      const at = sequence % blockSize
      if (block.pages[at] === 0) size++
      block.pages[at] = page
      block.indexes[at] = index
      block.transactions[at] = transaction
    },
    transactionOf: (sequence) => find(sequence)?.transactions[sequence % blockSize] ?? 0,
    projectOf: (sequence) => find(sequence)?.projects[sequence % blockSize] || undefined,
    setProject(sequence, project) {
      blockOf(sequence).projects[sequence % blockSize] = project
    },
    size: () => size,
  }
}
