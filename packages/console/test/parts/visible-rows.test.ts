import t from 'tap'
import { rowAfterKey, scrollToRow, visibleRows } from '../../page/parts/visible-rows.ts'

t.test('only rows that are visible are rendered, and some around them', async (t) => {
  t.strictSame(visibleRows({ scrollTop: 0, height: 100, rowHeight: 10 }, 1000), { first: 0, end: 18 })
  t.strictSame(visibleRows({ scrollTop: 5_005, height: 100, rowHeight: 10 }, 1000), { first: 492, end: 519 })
  t.strictSame(visibleRows({ scrollTop: 9_900, height: 100, rowHeight: 10 }, 1000), { first: 982, end: 1000 })
  t.strictSame(visibleRows({ scrollTop: 9_900, height: 100, rowHeight: 10 }, 3), { first: 0, end: 3 })
  t.strictSame(visibleRows({ scrollTop: 0, height: 100, rowHeight: 10 }, 0), { first: 0, end: 0 })
})

t.test('a row is scrolled to only if it is not visible', async (t) => {
  const view = { scrollTop: 100, height: 100, rowHeight: 10 }
  t.equal(scrollToRow(view, 15), 100)
  t.equal(scrollToRow(view, 2), 20)
  t.equal(scrollToRow(view, 20), 110)
})

t.test('keys move by row, page and to the ends', async (t) => {
  const after = (key: string, row: number, count = 100) => rowAfterKey(key, row, count, 10)
  t.equal(after('ArrowDown', -1), 0)
  t.equal(after('ArrowDown', 99), 99)
  t.equal(after('ArrowUp', 0), 0)
  t.equal(after('PageDown', 5), 15)
  t.equal(after('PageUp', 5), 0)
  t.equal(after('Home', 50), 0)
  t.equal(after('End', 50), 99)
  t.equal(after('Enter', -1), 0)
  t.equal(after('a', 5), undefined)
  t.equal(after('ArrowDown', 0, 0), undefined)
})
