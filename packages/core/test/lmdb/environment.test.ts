import { renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openEnvironment } from '../../src/lmdb/environment.ts'

t.test('a directory whose name holds a dot is a directory', async (t) => {
  const directory = join(t.testdir(), 'v1.2')
  const { root } = openEnvironment(directory)
  t.ok(statSync(directory).isDirectory())
  await root.close()
})

t.test(
  'nobody else may read what is stored',
  { skip: process.platform === 'win32' && 'Windows has no modes' },
  async (t) => {
    const directory = join(t.testdir(), 'events')
    const { root } = openEnvironment(directory)
    t.equal(statSync(directory).mode & 0o777, 0o700)
    t.equal(statSync(join(directory, 'data.mdb')).mode & 0o777, 0o600)
    await root.close()
  },
)

t.test('a throw in a child transaction keeps nothing of what it wrote', async (t) => {
  const { root, table } = openEnvironment(t.testdir())
  const rows = table('rows')
  const key = Buffer.from('key')
  await root.childTransaction(() => rows.put(key, Buffer.from('before')))
  await t.rejects(
    root.childTransaction(() => {
      rows.put(key, Buffer.from('after'))
      throw new Error('no')
    }),
    { message: 'no' },
  )
  t.equal(rows.getBinary(key)?.toString(), 'before')
  await root.close()
})

t.test('a throw in a synchronous transaction keeps nothing of what it wrote, and is what is thrown', async (t) => {
  const { root, table } = openEnvironment(t.testdir())
  const [rows, others] = [table('rows'), table('others')]
  const key = Buffer.from('key')
  root.transactionSync(() => void rows.put(key, Buffer.from('before')))
  const thrown = new Error('no')
  t.throws(
    () =>
      root.transactionSync(() => {
        rows.put(key, Buffer.from('after'))
        others.put(key, Buffer.from('new'))
        throw thrown
      }),
    thrown,
  )
  root.resetReadTxn()
  t.equal(rows.getBinary(key)?.toString(), 'before')
  t.equal(others.getBinary(key), undefined)
  root.transactionSync(() => void rows.put(key, Buffer.from('later')))
  t.equal(rows.getBinary(key)?.toString(), 'later')
  await root.close()
})

t.test('a table is opened once, because opening one takes the write lock', async (t) => {
  const { root, table } = openEnvironment(t.testdir())
  t.equal(table('rows'), table('rows'))
  t.not(table('rows'), table('others'))
  await root.close()
})

t.test('an empty value is a value', async (t) => {
  const { root, table } = openEnvironment(t.testdir())
  const rows = table('rows')
  await root.childTransaction(() => rows.put(Buffer.from('key'), Buffer.alloc(0)))
  t.equal(rows.doesExist(Buffer.from('key')), true)
  t.equal(rows.getBinary(Buffer.from('key'))?.length, 0)
  t.equal(rows.doesExist(Buffer.from('other')), false)
  await root.close()
})

t.test('a data file that is deleted or replaced under an open environment is noticed', async (t) => {
  const directory = t.testdir()
  const path = join(directory, 'data.mdb')
  const { root, lost } = openEnvironment(directory)
  t.equal(lost(), undefined)
  renameSync(path, `${path}.moved`)
  t.match(lost(), /deleted or replaced/)
  writeFileSync(path, 'another')
  t.match(lost(), /deleted or replaced/)
  rmSync(path)
  renameSync(`${path}.moved`, path)
  t.equal(lost(), undefined)
  await root.close()
})
