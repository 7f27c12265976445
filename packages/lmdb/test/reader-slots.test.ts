import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openLmdbStore } from './built-store.ts'
import { startStoreProcess } from './store-process.ts'

/** Takes all slots for readers of an environment, prints how many it took, and keeps them while it lives. */
const takeAllSlots = `
  import { open } from 'lmdb'
  const roots = []
  try {
    for (;;) {
      const root = open({ path: process.argv[1], noSubdir: false, overlappingSync: false })
      root.get('x')
      roots.push(root)
    }
  } catch (error) {
    console.log(error.code, roots.length)
  }
  setInterval(() => roots, 1000)`

t.test('without a slot for readers, an opening is refused, and nothing else fails', async (t) => {
  const directory = t.testdir()
  const server = await startStoreProcess(directory)
  t.teardown(() => server.kill())
  await server.submit(['before'])
  const holder = spawn(process.execPath, ['--input-type=module', '-e', takeAllSlots, join(directory, 'events')], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => holder.kill('SIGKILL'))
  const [code, taken] = String((await once(holder.stdout, 'data'))[0]).split(' ')
  t.equal(code, '-30790')
  t.ok(Number(taken) > 900, `${taken} were free`)
  await t.rejects(openLmdbStore(directory), { code: 'overloaded', message: /Too many processes/ })
  t.equal((await server.submit(['meanwhile'])).accepted, 1)
  t.strictSame(server.fatal, [])
  const ended = once(holder, 'close')
  holder.kill('SIGKILL')
  await ended
  const store = await openLmdbStore(directory)
  t.strictSame(await store.known('p', ['before', 'meanwhile']), [true, true], 'the slots of a killed process are free')
  await store.close()
  t.strictSame(server.fatal, [])
})
