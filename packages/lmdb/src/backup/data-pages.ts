import {
  createPageSet,
  nodeAt,
  openPageFile,
  type Page,
  type PageSet,
  type Row,
  readFreeRuns,
  readTable,
  readValue,
  rowsOf,
} from '../environment/page-file.ts'

/** A row, and where it is in the data file. */
export type FoundRow = Pick<Row, 'key' | 'value' | 'page' | 'index'>

/** More damaged pages of a table are not counted. */
const damagedMax = 2 ** 20

// no table has such a name
const mainTable = '\0main'
const freeTable = '\0free'

/**
 * Reads the tables of an LMDB data file without LMDB, which crashes over a damaged one. Skips what is damaged and never
 * writes. No process may write to the file meanwhile.
 */
export type DataPages = ReturnType<typeof openDataPages>

export function openDataPages(path: string) {
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
  const freePages = findFreePages(newest ? walk(newest.free, freeTable) : [], actual)

  function rowAt(page: Page, index: number): FoundRow | undefined {
    const node = nodeAt(page, index)
    const value = node && readValue(file, page, node)
    return value && { page: page.number, index, key: node.key, value }
  }

  return {
    /** The rows of a table in the order of their keys, without those below damaged pages. */
    *rows(table: string): Generator<FoundRow> {
      const found = roots.get(table)
      if (found) yield* walk(found.root, table)
    },
    /** The rows of all leaf pages that are not known to be free, for what no table leads to any more. */
    *scan(): Generator<FoundRow & { transaction: number }> {
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
    /** Reads the value of a row again. */
    value({ page: number, index }: Pick<FoundRow, 'page' | 'index'>): Buffer | undefined {
      const page = file.page(number)
      return page && rowAt(page, index)?.value
    },
    /** How many rows a table had; 0 if that is not known. */
    rowCount: (table: string) => roots.get(table)?.rows ?? 0,
    /** Damaged pages of a table, found by reading all of its rows. */
    damagedPages: (table: string) =>
      (damaged.get(table)?.size ?? 0) + (roots.has(table) ? 0 : (damaged.get(mainTable)?.size ?? 1)),
    /** Whether the list of free pages is damaged: a scan also finds rows that were replaced. */
    isFreeListDamaged: !newest || damaged.has(freeTable),
    /** How many pages the file has, and should have. */
    pages: { actual, expected: newest ? newest.lastPage + 1 : actual },
    close: file.close,
  }
}

/** What the rows of a list of free pages name of so many pages. */
function findFreePages(list: Iterable<Row>, pages: number): PageSet {
  const free = createPageSet(pages)
  for (const row of list) {
    for (const { first, count } of readFreeRuns(row)) {
      for (let page = Math.max(0, first); page < Math.min(first + count, pages); page++) free.add(page)
    }
  }
  return free
}
