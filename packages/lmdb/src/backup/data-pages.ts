import {
  createPageSet,
  nodeAt,
  openPageFile,
  type Page,
  type Row,
  readFreeRuns,
  readTable,
  readValue,
  rowsOf,
} from '../environment/page-file.ts'

/** Where a row is in a data file. */
export interface RowLocation {
  page: number
  index: number
}

export type FoundRow = Pick<Row, 'key' | 'value' | 'page' | 'index'>

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
  /** How many rows a table had; 0 if that is not known. */
  rowCount(table: string): number
  /** Damaged pages of a table, found by reading all of its rows. */
  damagedPages(table: string): number
  /** Whether the list of free pages is damaged: {@link scan} also returns rows that were replaced. */
  isFreeListDamaged: boolean
  /** How many pages the file has, and should have. */
  pages: { actual: number; expected: number }
  close(): void
}

export function openDataPages(path: string): DataPages {
  const file = openPageFile(path)
  const actual = file.size()
  const damaged = new Map<string, Set<number>>()

  function walk(root: bigint, table: string): Generator<Row> {
    return rowsOf(file, root, { onDamage: (page) => noteDamage(table, page) })
  }

  function noteDamage(table: string, page: number): void {
    const pages = damaged.get(table) ?? new Set()
    if (pages.size < damagedMax) damaged.set(table, pages.add(page))
  }

  const metas = file.metas()
  const [newest] = metas
  const roots = new Map<string, { root: bigint; rows: number }>()
  // the older meta page leads to a table that the newer one has lost
  for (const { main } of metas) {
    for (const row of walk(main, mainTable)) {
      const table = readTable(row)
      if (table && !roots.has(table.name)) roots.set(table.name, table)
    }
  }
  const freePages = createPageSet(actual)
  for (const row of newest ? walk(newest.free, freeTable) : []) {
    for (const { first, count } of readFreeRuns(row)) {
      for (let page = Math.max(0, first); page < Math.min(first + count, actual); page++) freePages.add(page)
    }
  }

  function rowAt(page: Page, index: number): FoundRow | undefined {
    const node = nodeAt(page, index)
    const value = node && readValue(file, page, node)
    return value && { page: page.number, index, key: node.key, value }
  }

  return {
    *rows(table) {
      const found = roots.get(table)
      if (found) yield* walk(found.root, table)
    },

    *scan() {
      for (let number = 2; number < actual; number++) {
        if (freePages.has(number)) continue
        const page = file.page(number)
        if (!page?.isLeaf) continue
        for (let index = 0; index < page.count; index++) {
          const row = rowAt(page, index)
          if (row) yield { ...row, transaction: page.transaction }
        }
      }
    },

    row({ page: number, index }) {
      const page = file.page(number)
      return page && rowAt(page, index)
    },

    rowCount: (table) => roots.get(table)?.rows ?? 0,
    damagedPages: (table) =>
      (damaged.get(table)?.size ?? 0) + (roots.has(table) ? 0 : (damaged.get(mainTable)?.size ?? 1)),
    isFreeListDamaged: !newest || damaged.has(freeTable),
    pages: { actual, expected: newest ? newest.lastPage + 1 : actual },
    close: file.close,
  }
}

/** More damaged pages of a table are not counted. */
const damagedMax = 2 ** 20

// no table has such a name
const mainTable = '\0main'
const freeTable = '\0free'
