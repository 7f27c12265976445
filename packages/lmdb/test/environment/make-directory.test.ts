import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makeDirectory } from '../../src/environment/directory.ts'

t.test('a directory is made with all above it, and making it again changes nothing', async (t) => {
  const path = join(t.testdir(), 'a', 'b', 'c')
  makeDirectory(path)
  makeDirectory(path)
  t.ok(statSync(path).isDirectory())
})

t.test('one that cannot be made is an error, and not an endless wait', async (t) => {
  // Node 24 sees that there is no such file where Node 20 sees that it is below no directory
  t.throws(() => makeDirectory(join(t.testdir({ file: '' }), 'file', 'below')), { code: /^(ENOTDIR|EEXIST)$/ })
  t.throws(() => makeDirectory(join(t.testdirName, 'file')), { code: 'EEXIST' })
  if (existsSync('/proc')) t.throws(() => makeDirectory('/proc/x/y'))
})
