import { existsSync, statSync, symlinkSync } from 'node:fs'
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
  const refused = { code: 'invalid-argument', message: /cannot be a directory: / }
  t.throws(() => makeDirectory(join(t.testdir({ file: '' }), 'file', 'below')), refused)
  t.throws(() => makeDirectory(join(t.testdirName, 'file')), refused)
  if (existsSync('/proc')) t.throws(() => makeDirectory('/proc/x/y'), refused)
  symlinkSync('nothing', join(t.testdirName, 'link'))
  const dangling = {
    code: 'invalid-argument',
    message: /link\/? cannot be a directory: it is a symbolic link to nothing/,
  }
  for (const path of ['link', 'link/', 'link/below'])
    t.throws(() => makeDirectory(`${t.testdirName}/${path}`), dangling)
})
