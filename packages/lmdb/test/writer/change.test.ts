import t, { type Test } from 'tap'
import { type KeyRange, openEnvironment, type Rows } from '../../src/environment/environment.ts'
import { type Change, change, openTables, record } from '../../src/writer/change.ts'

const bytes = (text: string) => Buffer.from(text)

function open(t: Test) {
  const { root, table } = openEnvironment(t.testdir())
  const [rows, others] = [table('rows'), table('others')]
  t.teardown(() => root.close())
  return {
    root,
    put: (key: string, value: string) => root.transactionSync(() => void rows.put(bytes(key), bytes(value))),
    remove: (key: string) => root.transactionSync(() => void rows.remove(bytes(key))),
    all: (from = rows) => Array.from(from.getRange(), ({ key, value }) => `${key}=${value}`),
    others,
    table,
    record<T>(decide: (rows: Rows, others: Rows) => T) {
      root.resetReadTxn()
      return record(table, (name) => decide(name('rows'), name('others')))
    },
    // as it comes out at the other thread
    apply: (made: Change) => root.transactionSync(() => change(table, structuredClone(made))),
    openTables: (made: Change) => openTables(table, made),
  }
}

t.test('a decision writes nothing by itself; its change does, in any table', async (t) => {
  const bed = open(t)
  bed.put('a', '1')
  bed.put('gone', '1')
  const { result, change } = bed.record((rows, others) => {
    const before = rows.getBinary(bytes('a'))?.toString()
    rows.put(bytes('a'), bytes('2'))
    rows.remove(bytes('gone'))
    others.put(bytes('b'), bytes(''))
    return `it was ${before}`
  })
  t.equal(result, 'it was 1')
  t.strictSame(bed.all(), ['a=1', 'gone=1'])
  t.equal(bed.apply(change), true)
  t.strictSame(bed.all(), ['a=2'])
  t.strictSame(bed.all(bed.others), ['b='])
})

t.test('a decision sees what it has written itself', async (t) => {
  const bed = open(t)
  bed.put('a', '1')
  const { change } = bed.record((rows, others) => {
    rows.put(bytes('a'), bytes('2'))
    t.equal(rows.getBinary(bytes('a'))?.toString(), '2')
    t.ok(rows.doesExist(bytes('a')))
    rows.remove(bytes('a'))
    t.equal(rows.getBinary(bytes('a')), undefined)
    t.notOk(rows.doesExist(bytes('a')))
    rows.put(bytes('a'), bytes('3'))
    t.equal(others.getBinary(bytes('a')), undefined, 'a row of another table is another row')
  })
  t.ok(bed.apply(change))
  t.strictSame(bed.all(), ['a=3'], 'the last of several writes counts')
})

t.test('a change is not made once a row that was read is another one, is there or is not there', async (t) => {
  const bed = open(t)
  bed.put('a', '1')
  const onA = () => bed.record((rows) => [rows.getBinary(bytes('a')), rows.put(bytes('b'), bytes('new'))]).change
  const onNone = () => bed.record((rows) => [rows.doesExist(bytes('n')), rows.put(bytes('b'), bytes('new'))]).change
  const [changed, removed] = [onA(), onA()]
  bed.put('a', '2')
  t.equal(bed.apply(changed), false)
  bed.remove('a')
  t.equal(bed.apply(removed), false)
  const added = onNone()
  bed.put('n', '')
  t.equal(bed.apply(added), false, 'an empty row is a row')
  const emptied = bed.record((rows) => [rows.getBinary(bytes('n')), rows.put(bytes('b'), bytes('new'))]).change
  bed.remove('n')
  t.equal(bed.apply(emptied), false)
  t.strictSame(bed.all(), [], 'nothing of any of them was written')
  t.equal(bed.apply(onA()), true)
  t.strictSame(bed.all(), ['b=new'])
})

t.test('what was not read may change', async (t) => {
  const bed = open(t)
  bed.put('a', '1')
  const { change } = bed.record((rows) => [rows.getBinary(bytes('a')), rows.put(bytes('b'), bytes('2'))])
  bed.put('c', '1')
  bed.put('a', '2')
  bed.put('a', '1')
  t.equal(bed.apply(change), true, 'and what is as it was is untouched')
})

t.test('a change is not made once a range that was read has other keys', async (t) => {
  const bed = open(t)
  for (const key of ['a', 'c', 'e']) bed.put(key, '')
  const range = { start: bytes('b'), end: bytes('f') }
  const onRange = () =>
    bed.record((rows) => {
      rows.put(bytes('x'), bytes(''))
      return Array.from(rows.getKeys(range), String)
    })
  const { result, change } = onRange()
  t.strictSame(result, ['c', 'e'])
  bed.put('d', '')
  t.equal(bed.apply(change), false, 'one came in')
  const before = onRange().change
  bed.remove('c')
  t.equal(bed.apply(before), false, 'one went')
  const moved = onRange().change
  bed.remove('d')
  bed.put('c', '')
  t.equal(bed.apply(moved), false, 'as many, but others')
  const outside = onRange().change
  bed.put('g', '')
  t.equal(bed.apply(outside), true)
  const last = bed.record((rows) => {
    rows.put(bytes('y'), bytes(''))
    return Array.from(rows.getKeys({ reverse: true, limit: 1 }), String)
  })
  t.strictSame(last.result, ['y'])
  bed.put('z', '')
  t.equal(bed.apply(last.change), false, 'the last one')
})

t.test('a range has what the decision itself has put and removed', async (t) => {
  const bed = open(t)
  for (const key of ['a', 'b', 'c', 'd']) bed.put(key, '')
  const keys = (range: KeyRange, removed: string[], put: string[]) =>
    bed.record((rows) => {
      for (const key of removed) rows.remove(bytes(key))
      for (const key of put) rows.put(bytes(key), bytes(''))
      return Array.from(rows.getKeys(range), String).join('')
    }).result
  t.equal(keys({}, ['b'], ['bb', 'e']), 'abbcde')
  t.equal(keys({ limit: 2 }, ['a', 'b'], []), 'cd', 'a bound counts what is left')
  t.equal(keys({ limit: 2 }, ['a'], ['aa']), 'aab')
  t.equal(keys({ start: bytes('b'), end: bytes('d') }, ['b'], ['a', 'bb', 'd']), 'bbc')
  t.equal(keys({ reverse: true, limit: 2 }, ['d'], ['e']), 'ec')
  t.equal(keys({ limit: 1 }, ['a'], ['a']), 'a', 'put after it was removed')
})

t.test('what a decision has put makes no range that it reads wider', async (t) => {
  const bed = open(t)
  for (let i = 0; i < 9; i++) bed.put(`a${i}`, '')
  const { change } = bed.record((rows) => {
    for (let i = 0; i < 9; i++) {
      rows.put(bytes(`b${i}`), bytes(''))
      t.strictSame([...rows.getKeys({ reverse: true, limit: 1 })].map(String), [`b${i}`])
    }
    rows.remove(bytes('a0'))
    t.strictSame([...rows.getKeys({ limit: 1 })].map(String), ['a1'])
  })
  t.strictSame(
    change.keysRead.map(({ keys }) => keys.map(String)),
    [...Array.from({ length: 9 }, () => ['a8']), ['a0', 'a1']],
  )
})

t.test('of two decisions on the same rows the second one is not made', async (t) => {
  const bed = open(t)
  const add = () =>
    bed.record((rows) => {
      const count = Number(rows.getBinary(bytes('count'))?.toString() ?? 0)
      rows.put(bytes('count'), bytes(String(count + 1)))
    }).change
  const [one, other] = [add(), add()]
  t.strictSame([bed.apply(one), bed.apply(other), bed.apply(add())], [true, false, true])
  t.strictSame(bed.all(), ['count=2'])
})

t.test('what a decision throws is thrown', async (t) => {
  const bed = open(t)
  const thrown = new Error('no')
  t.throws(
    () =>
      bed.record((rows) => {
        rows.put(bytes('a'), bytes('1'))
        throw thrown
      }),
    thrown,
  )
  t.strictSame(bed.all(), [])
})

t.test('tables that were opened before a transaction outlast its being undone', async (t) => {
  const bed = open(t)
  const row = { table: 'new', key: bytes('a'), value: bytes('1') }
  const made: Change = { rowsRead: [], keysRead: [], rows: [row] }
  bed.openTables(made)
  t.throws(() =>
    bed.root.transactionSync(() => {
      bed.apply(made)
      throw new Error('no')
    }),
  )
  t.equal(bed.apply(made), true)
  // LMDB says nothing of a write to a table that is gone
  bed.root.resetReadTxn()
  t.strictSame(bed.all(bed.table('new')), ['a=1'])
})
