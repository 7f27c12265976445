import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'
import { createKey, projectId, send } from '../served.ts'

const data = join(t.testdir(), 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data])
const targets = {
  'over HTTP': { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key },
  'in a store': { INGEST_STORE: data, INGEST_PROJECT_ID: projectId },
}
const events = ['a', 'b', 'c'].map((eventId) => ({ projectId, eventId }))
await send({ ...server, key }, JSON.stringify({ events }))

for (const [target, env] of Object.entries(targets)) {
  t.test(`${target}, a consumer is set behind an event, a cursor or the end, listed and deleted`, async (t) => {
    const run = (...args: string[]) => ingest(['consumers', ...args], { env })
    const list = async () => JSON.parse((await run('list', '--json')).stdout).consumers
    const { cursor } = JSON.parse((await ingest(['find', 'b', '--json'], { env })).stdout)
    t.match(await run('set', 'warehouse', '--event', 'a'), { code: 0, stdout: 'created warehouse\n', stderr: '' })
    t.match(await list(), [{ name: 'warehouse', lag: { events: 2, exact: true, seconds: Number } }])
    t.match(await run('set', 'warehouse', '--cursor', cursor), { code: 0, stdout: 'updated warehouse\n' })
    const table = (await run('list')).stdout.split('\n').map((line) => line.split(/ {2,}/))
    t.match(table.slice(0, 2), [
      ['CONSUMER', 'UNREAD', 'SECONDS BEHIND', 'MOVED', 'CURSOR'],
      ['warehouse', '1', /^[\d,.]+$/, /Z$/, cursor],
    ])
    t.match(await run('set', 'warehouse', '--end'), { code: 0, stdout: 'updated warehouse\n' })
    t.match(await run('set', 'warehouse', '--end'), { code: 0, stdout: 'unchanged warehouse\n' })
    t.match(await list(), [{ name: 'warehouse', lag: { events: 0, exact: true, seconds: 0 } }])
    t.match(await run('delete', 'warehouse'), { code: 0, stdout: 'deleted warehouse\n' })
    t.match(await run('delete', 'warehouse'), { code: 3, stderr: 'ingest: There is no consumer warehouse.\n' })
    t.match(await run('set', 'warehouse', '--event', 'none'), { code: 3, stderr: /has no event none/ })
    t.match(await run('set', 'warehouse', '--cursor', 'x'), { code: 2, stderr: /not an event cursor/ })
    t.strictSame(await list(), [])
  })
}

t.test('an erasure of old events says which consumers have not read them', async (t) => {
  const env = targets['in a store']
  await ingest(['consumers', 'set', 'behind', '--event', 'a'], { env })
  await ingest(['consumers', 'set', 'done', '--end'], { env })
  const count = () => ingest(['erase', '--older-than', '1s', '--dry-run', '--json'], { env })
  let counted = await count()
  while (JSON.parse(counted.stdout).projects[0].events < 3) counted = await count()
  t.match(counted, { code: 0, stderr: 'ingest: consumers of game-1 have not read all of these events: behind\n' })
})
