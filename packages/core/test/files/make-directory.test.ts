import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makeDirectory } from '../../src/files/make-directory.ts'

t.test('a directory is created with its parents, once', async (t) => {
  const path = join(t.testdir(), 'a', 'b', 'c')
  makeDirectory(path)
  makeDirectory(path)
  t.ok(statSync(path).isDirectory())
})

t.test('a directory that cannot be created is an error, and not an endless loop', async (t) => {
  // Node 24 sees that there is no such file where Node 20 sees that it is below no directory
  t.throws(() => makeDirectory(join(t.testdir({ file: '' }), 'file', 'below')), { code: /^(ENOTDIR|EEXIST)$/ })
  t.throws(() => makeDirectory(join(t.testdirName, 'file')), { code: 'EEXIST' })
  if (existsSync('/proc')) t.throws(() => makeDirectory('/proc/x/y'))
})
