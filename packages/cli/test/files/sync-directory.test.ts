import { join } from 'node:path'
import t from 'tap'
import { syncDirectory } from '../../src/files/write-file.ts'

t.test('a directory is synced', async (t) => {
  await t.resolves(syncDirectory(t.testdir()))
})

t.test(
  'one that is not there is what the file system says',
  { skip: process.platform === 'win32' && 'nothing is synced there' },
  async (t) => {
    await t.rejects(syncDirectory(join(t.testdir(), 'none')), { code: 'ENOENT' })
  },
)
