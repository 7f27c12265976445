import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

/** The page size of every environment. */
export const pageSize = 4096

/** Reads the pages of an LMDB data file without LMDB, which crashes over a damaged one. Never writes. */
export interface PageFile {
  /** How many whole pages the file has now. */
  size(): number
  /** The bytes of consecutive pages; undefined if they cannot be read. */
  read(number: number, count?: number): Buffer | undefined
  /** A branch or a leaf; undefined for a page that is neither. */
  page(number: number): Page | undefined
  /** The intact meta pages, the newest one first. */
  metas(): Meta[]
  close(): void
}

/** A branch or a leaf of a tree. */
export interface Page {
  number: number
  /** The transaction that wrote it. */
  transaction: number
  isLeaf: boolean
  bytes: Buffer
  /** How many nodes it has. */
  count: number
}

export interface Meta {
  transaction: number
  lastPage: number
  /** The root of the list of free pages. */
  free: bigint
  /** The root of the table of tables. */
  main: bigint
}

export interface Node {
  key: Buffer
  /** The page of a node of a branch. */
  child: number
  /** The length of the value of a node of a leaf, in bytes. */
  size: number
  dataAt: number
  /** Whether the value is on overflow pages. */
  isBig: boolean
  isTable: boolean
}

/** Consecutive pages. */
export interface PageRun {
  first: number
  count: number
}

// the layout of LMDB's data format 2, as lmdb 3.5 writes it
const headerBytes = 24
const branchFlag = 1
const leafFlag = 2
const overflowFlag = 4
const nodeBytes = 8
const bigFlag = 1
const tableFlag = 2
const magic = 0xbeefc0de
const metaAt = headerBytes
const tableBytes = 48
const rowsAt = 32
const rootAt = 40
const overflowBytes = 24
/** The root of an empty tree. */
const noPage = 2n ** 64n - 1n
const depthMax = 32

export function openPageFile(path: string): PageFile {
  const file = openSync(path, 'r')
  const size = () => Math.floor(fstatSync(file).size / pageSize)
  let knownSize = size()

  function read(number: number, count = 1): Buffer | undefined {
    if (!Number.isSafeInteger(number) || number < 0 || count < 1) return undefined
    if (number + count > knownSize) knownSize = size()
    if (number + count > knownSize) return undefined
    const bytes = Buffer.allocUnsafeSlow(count * pageSize)
    try {
      return readSync(file, bytes, 0, bytes.length, number * pageSize) === bytes.length ? bytes : undefined
    } catch {
      // the disk cannot read it
      return undefined
    }
  }

  return {
    size,
    read,
    page(number) {
      const bytes = read(number)
      return bytes && parsePage(bytes, number)
    },
    metas() {
      const metas = [0, 1].flatMap((number) => parseMeta(read(number)) ?? [])
      return metas.sort((a, b) => b.transaction - a.transaction)
    },
    close: () => closeSync(file),
  }
}

function parseMeta(bytes: Buffer | undefined): Meta | undefined {
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
  const isTree = (flags & (branchFlag | leafFlag)) !== 0 && (flags & overflowFlag) === 0
  if (!isTree || Number(bytes.readBigUInt64LE(0)) !== number || headerBytes + count * 2 > pageSize) return undefined
  return { number, transaction: Number(bytes.readBigUInt64LE(8)), isLeaf: (flags & branchFlag) === 0, bytes, count }
}

/** A node of a page; undefined for a damaged one. */
export function nodeAt({ bytes }: Page, index: number): Node | undefined {
  const at = headerBytes + bytes.readUInt16LE(headerBytes + index * 2)
  if (at + nodeBytes > pageSize) return undefined
  const flags = bytes.readUInt16LE(at + 4)
  const dataAt = at + nodeBytes + bytes.readUInt16LE(at + 6)
  if (dataAt > pageSize) return undefined
  const size = bytes.readUInt32LE(at)
  return {
    key: bytes.subarray(at + nodeBytes, dataAt),
    child: size + flags * 2 ** 32,
    size,
    dataAt,
    isBig: (flags & bigFlag) !== 0,
    isTable: (flags & tableFlag) !== 0,
  }
}

/** The overflow pages of the value of a node of a leaf; undefined for a damaged node. */
export function overflowOf({ bytes }: Page, { dataAt, size }: Node): PageRun | undefined {
  if (dataAt + overflowBytes > pageSize) return undefined
  const [first, count] = [Number(bytes.readBigUInt64LE(dataAt)), Number(bytes.readBigUInt64LE(dataAt + 16))]
  return size > count * pageSize - headerBytes ? undefined : { first, count }
}

/** The value of a node of a leaf; undefined for a damaged one. */
export function readValue(file: PageFile, page: Page, node: Node): Buffer | undefined {
  const { dataAt, size, isBig } = node
  if (!isBig) return dataAt + size > pageSize ? undefined : page.bytes.subarray(dataAt, dataAt + size)
  const run = overflowOf(page, node)
  const overflow = run && file.read(run.first, run.count)
  // its header too: values have no checksum
  const isWhole =
    overflow && Number(overflow.readBigUInt64LE(0)) === run.first && overflow.readUInt16LE(18) & overflowFlag
  return isWhole ? overflow.subarray(headerBytes, headerBytes + size) : undefined
}

export interface WalkOptions {
  /** Called with each page of the tree before it is read; returns whether to read it. */
  onPage?(number: number): boolean
  /** Called with each page that is damaged, or has a damaged node. */
  onDamage(number: number): void
}

/** The leaves of a tree in the order of their keys, without those below damaged pages. */
export function* leavesOf(file: PageFile, root: bigint, options: WalkOptions, depth = 0): Generator<Page> {
  if (root === noPage) return
  const number = Number(root)
  if (options.onPage?.(number) === false) return
  const page = depth < depthMax ? file.page(number) : undefined
  if (!page) {
    options.onDamage(number)
    return
  }
  if (page.isLeaf) {
    yield page
    return
  }
  for (let index = 0; index < page.count; index++) {
    const node = nodeAt(page, index)
    if (node) yield* leavesOf(file, BigInt(node.child), options, depth + 1)
    else options.onDamage(number)
  }
}

export interface Row {
  key: Buffer
  /** The bytes of the value, which may be damaged. */
  value: Buffer
  /** Whether the value is that of {@link readTable}. */
  isTable: boolean
  page: number
  index: number
}

/** The rows of a tree in the order of their keys, without damaged ones. */
export function* rowsOf(file: PageFile, root: bigint, options: WalkOptions): Generator<Row> {
  for (const page of leavesOf(file, root, options)) {
    for (let index = 0; index < page.count; index++) {
      const node = nodeAt(page, index)
      const value = node && readValue(file, page, node)
      // LMDB stores no empty key: zeros in place of a node have one
      if (value && node.key.length > 0) yield { key: node.key, value, isTable: node.isTable, page: page.number, index }
      else options.onDamage(page.number)
    }
  }
}

/** The name of a table, the root of its tree and how many rows it has, from a row of the table of tables; undefined for another row. */
export function readTable({ key, value }: Row): { name: string; root: bigint; rows: number } | undefined {
  // lmdb ends names with a NUL
  const name = key.toString().replace(/\0$/, '')
  return value.length === tableBytes
    ? { name, root: value.readBigUInt64LE(rootAt), rows: Number(value.readBigUInt64LE(rowsAt)) }
    : undefined
}

/** The transaction that freed the pages of a row of the list of free pages: none of a later snapshot. */
export function readFreedBy({ key }: Row): number {
  return key.length === 8 ? Number(key.readBigUInt64LE()) : Number.POSITIVE_INFINITY
}

/** The runs of a row of the list of free pages: its length, then page numbers, and runs as negative length and start. */
export function* readFreeRuns({ value: list }: Pick<Row, 'value'>): Generator<PageRun> {
  const length = list.length < 8 ? 0 : Math.min(Number(list.readBigInt64LE(0)), list.length / 8 - 1)
  for (let i = 1; i <= length; i++) {
    const entry = Number(list.readBigInt64LE(i * 8))
    if (entry > 0) yield { first: entry, count: 1 }
    else if (entry < 0 && i < length) yield { first: Number(list.readBigInt64LE(++i * 8)), count: -entry }
  }
}

/** A set of pages, with one bit for each. */
export interface PageSet {
  add(number: number): void
  /** Whether the set has it; false for a number beyond its end. */
  has(number: number): boolean
  /** Runs of up to `countMax` pages of the set, from page `from` on. */
  runs(from: number, countMax: number): Generator<PageRun>
}

export function createPageSet(pages: number): PageSet {
  const bits = new Uint8Array(Math.ceil(pages / 8))
  const has = (number: number) => ((bits[Math.floor(number / 8)] ?? 0) & (1 << (number % 8))) !== 0
  return {
    add(number) {
      const at = Math.floor(number / 8)
      bits[at] = (bits[at] as number) | (1 << (number % 8))
    },
    has,
    *runs(from, countMax) {
      for (let first = from; first < pages; ) {
        if (!has(first)) {
          first += bits[Math.floor(first / 8)] === 0 ? 8 - (first % 8) : 1
          continue
        }
        let count = 1
        while (count < countMax && has(first + count)) count++
        yield { first, count }
        first += count
      }
    },
  }
}
