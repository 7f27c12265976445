import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { pageSize } from '../environment/data-file.ts'

/** Where a row is in a data file. */
export interface RowLocation {
  page: number
  index: number
}

export interface FoundRow extends RowLocation {
  key: Buffer
  /** The bytes of the value, which may be damaged. */
  value: Buffer
}

/**
 * Reads the tables of an LMDB data file without LMDB, which crashes over a damaged one. Skips what is damaged and never
 * writes. No process may write to the file meanwhile.
 */
export interface DataPages {
  /** The rows of a table in the order of their keys, without those below damaged pages. */
  rows(table: string): Generator<FoundRow>
  /** The rows of all leaf pages that are not known to be free, for what no table leads to any more. */
  scan(): Generator<FoundRow & { transaction: number }>
  /** Reads a row again. */
  row(location: RowLocation): FoundRow | undefined
  /** Damaged pages of a table, found by reading all of its rows. */
  damagedPages(table: string): number
  /** Whether the list of free pages is damaged: {@link scan} also returns rows that were replaced. */
  isFreeListDamaged: boolean
  /** How many pages the file has, and should have. */
  pages: { actual: number; expected: number }
  close(): void
}

// the layout of LMDB's data format 2, as lmdb 3.5 writes it
const headerBytes = 24
const isBranch = 1
const isLeaf = 2
const isOverflow = 4
const nodeBytes = 8
const isBig = 1
const magic = 0xbeefc0de
const metaAt = headerBytes
const tableBytes = 48
const rootAt = 40
const noPage = 2n ** 64n - 1n
const depthMax = 32

interface Page {
  number: number
  transaction: number
  flags: number
  bytes: Buffer
  count: number
}

interface Meta {
  transaction: number
  lastPage: number
  free: bigint
  main: bigint
}

export function openDataPages(path: string): DataPages {
  const file = openSync(path, 'r')
  const actual = Math.floor(fstatSync(file).size / pageSize)
  const damaged = new Map<string, Set<number>>()

  function read(number: number, pages = 1): Buffer | undefined {
    if (!Number.isSafeInteger(number) || number < 0 || pages < 1 || number + pages > actual) return undefined
    const bytes = Buffer.allocUnsafeSlow(pages * pageSize)
    try {
      return readSync(file, bytes, 0, bytes.length, number * pageSize) === bytes.length ? bytes : undefined
    } catch {
      // the disk cannot read it
      return undefined
    }
  }

  function readPage(number: number): Page | undefined {
    const bytes = read(number)
    return bytes && parsePage(bytes, number)
  }

  function* walk(root: bigint, table: string, depth = 0): Generator<FoundRow> {
    if (root === noPage) return
    const number = Number(root)
    const page = depth < depthMax ? readPage(number) : undefined
    if (!page) {
      noteDamage(table, number)
      return
    }
    for (let index = 0; index < page.count; index++) {
      const node = nodeAt(page, index)
      if (!node) noteDamage(table, number)
      else if (page.flags & isBranch) yield* walk(node.child, table, depth + 1)
      else {
        const value = readValue(page, node)
        if (value) yield { page: number, index, key: node.key, value }
        else noteDamage(table, number)
      }
    }
  }

  /** The value of a node of a leaf. */
  function readValue({ bytes }: Page, { dataAt, size, flags }: Node): Buffer | undefined {
    if (!(flags & isBig)) return dataAt + size > pageSize ? undefined : bytes.subarray(dataAt, dataAt + size)
    if (dataAt + 24 > pageSize) return undefined
    const [first, pages] = [Number(bytes.readBigUInt64LE(dataAt)), Number(bytes.readBigUInt64LE(dataAt + 16))]
    if (size > pages * pageSize - headerBytes) return undefined
    const overflow = read(first, pages)
    // its header too: values have no checksum
    const isWhole = overflow && Number(overflow.readBigUInt64LE(0)) === first && overflow.readUInt16LE(18) & isOverflow
    return isWhole ? overflow.subarray(headerBytes, headerBytes + size) : undefined
  }

  function noteDamage(table: string, page: number): void {
    const pages = damaged.get(table) ?? new Set()
    damaged.set(table, pages.add(page))
  }

  const metas = [0, 1].flatMap((number) => readMeta(read(number)) ?? [])
  metas.sort((a, b) => b.transaction - a.transaction)
  const [newest] = metas
  const roots = new Map<string, bigint>()
  // the older meta page leads to a table that the newer one has lost
  for (const { main } of metas) {
    for (const { key, value } of walk(main, mainTable)) {
      const name = key.toString().replace(/\0$/, '')
      if (value.length === tableBytes && !roots.has(name)) roots.set(name, value.readBigUInt64LE(rootAt))
    }
  }
  const freePages = new Set<number>()
  if (newest) for (const { value } of walk(newest.free, freeTable)) addFreePages(freePages, value)

  return {
    *rows(table) {
      const root = roots.get(table)
      if (root !== undefined) yield* walk(root, table)
    },

    *scan() {
      for (let number = 2; number < actual; number++) {
        if (freePages.has(number)) continue
        const page = readPage(number)
        if (!page || !(page.flags & isLeaf)) continue
        for (let index = 0; index < page.count; index++) {
          const node = nodeAt(page, index)
          const value = node && readValue(page, node)
          if (value) yield { page: number, index, key: node.key, value, transaction: page.transaction }
        }
      }
    },

    row({ page: number, index }) {
      const page = readPage(number)
      const node = page && nodeAt(page, index)
      const value = node && readValue(page, node)
      return value && { page: number, index, key: node.key, value }
    },

    damagedPages: (table) =>
      (damaged.get(table)?.size ?? 0) + (roots.has(table) ? 0 : (damaged.get(mainTable)?.size ?? 1)),
    isFreeListDamaged: !newest || damaged.has(freeTable),
    pages: { actual, expected: newest ? newest.lastPage + 1 : actual },
    close: () => closeSync(file),
  }
}

// no table has such a name
const mainTable = '\0main'
const freeTable = '\0free'

function readMeta(bytes: Buffer | undefined): Meta | undefined {
  if (!bytes || bytes.readUInt32LE(metaAt) !== magic) return undefined
  const tablesAt = metaAt + 24
  return {
    free: bytes.readBigUInt64LE(tablesAt + rootAt),
    main: bytes.readBigUInt64LE(tablesAt + tableBytes + rootAt),
    lastPage: Number(bytes.readBigUInt64LE(tablesAt + 2 * tableBytes)),
    transaction: Number(bytes.readBigUInt64LE(tablesAt + 2 * tableBytes + 8)),
  }
}

function parsePage(bytes: Buffer, number: number): Page | undefined {
  const flags = bytes.readUInt16LE(18)
  const count = bytes.readUInt16LE(20) >> 1
  const isTree = (flags & (isBranch | isLeaf)) !== 0 && (flags & isOverflow) === 0
  if (!isTree || Number(bytes.readBigUInt64LE(0)) !== number || headerBytes + count * 2 > pageSize) return undefined
  return { number, transaction: Number(bytes.readBigUInt64LE(8)), flags, bytes, count }
}

interface Node {
  key: Buffer
  flags: number
  /** Of a branch. */
  child: bigint
  /** Of a leaf. */
  size: number
  dataAt: number
}

function nodeAt({ bytes }: Page, index: number): Node | undefined {
  const at = headerBytes + bytes.readUInt16LE(headerBytes + index * 2)
  if (at + nodeBytes > pageSize) return undefined
  const flags = bytes.readUInt16LE(at + 4)
  const dataAt = at + nodeBytes + bytes.readUInt16LE(at + 6)
  if (dataAt > pageSize) return undefined
  const size = bytes.readUInt32LE(at)
  return {
    key: bytes.subarray(at + nodeBytes, dataAt),
    flags,
    child: BigInt(size) | (BigInt(flags) << 32n),
    size,
    dataAt,
  }
}

/** Adds the pages of a list of free pages: its length, then page numbers, and runs as their negative length and start. */
function addFreePages(pages: Set<number>, list: Buffer): void {
  const length = Math.min(Number(list.readBigInt64LE(0)), list.length / 8 - 1)
  for (let i = 1; i <= length; i++) {
    const entry = Number(list.readBigInt64LE(i * 8))
    if (entry > 0) pages.add(entry)
    if (entry >= 0 || i === length) continue
    const first = Number(list.readBigInt64LE(++i * 8))
    for (let page = first; page < first - entry; page++) pages.add(page)
  }
}
