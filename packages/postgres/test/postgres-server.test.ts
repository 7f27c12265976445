import t from 'tap'
import { noPostgres, runSql } from './database.ts'
import { startPostgres } from './postgres-server.ts'

t.test('what was committed survives each way of stopping the server', { skip: noPostgres }, async (t) => {
  let server = await startPostgres()
  t.match(await runSql(server.url, 'SHOW fsync'), [{ fsync: 'on' }])
  await runSql(server.url, 'CREATE TABLE t (n int)')
  const { directory, port } = server
  const ways = [() => server.stop(), () => server.stop('immediate'), () => server.kill()]
  for (const [n, stop] of ways.entries()) {
    await runSql(server.url, `INSERT INTO t VALUES (${n})`)
    t.ok(server.pids().length > 1)
    await stop()
    await t.rejects(runSql(server.url, 'SELECT 1'), { code: 'ECONNREFUSED' })
    server = await startPostgres({ directory, port, settings: { work_mem: '5MB' } })
    t.match(await runSql(server.url, 'SHOW work_mem'), [{ work_mem: '5MB' }])
  }
  t.strictSame(await runSql(server.url, 'SELECT n FROM t ORDER BY n'), [{ n: 0 }, { n: 1 }, { n: 2 }])
})
