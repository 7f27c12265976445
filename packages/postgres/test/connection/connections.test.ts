import { connect, createServer, type Server } from 'node:net'
import t from 'tap'
import { openConnections } from '../../src/connection/connections.ts'
import { createDatabase, noPostgres } from '../database.ts'

/** An ErrorResponse of the protocol: https://www.postgresql.org/docs/current/protocol-message-formats.html */
function errorResponse(fields: Record<string, string>): Buffer {
  const body = Buffer.from(
    `${Object.entries(fields)
      .map(([type, text]) => `${type}${text}\0`)
      .join('')}\0`,
  )
  const head = Buffer.from('E....')
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

t.test(
  'a pooler that refuses the startup parameter of time-outs is used without it',
  { skip: noPostgres },
  async (t) => {
    const url = new URL(await createDatabase())
    const startups: boolean[] = []
    const pooler: Server = createServer((client) => {
      client.on('error', () => {})
      client.once('data', (startup) => {
        const hasTimeout = startup.includes('statement_timeout')
        startups.push(hasTimeout)
        if (hasTimeout) {
          const message = 'unsupported startup parameter: statement_timeout'
          client.end(errorResponse({ S: 'FATAL', C: '08P01', M: message }))
          return
        }
        const server = connect(Number(url.port), url.hostname)
        server.on('error', () => client.destroy())
        server.write(startup)
        client.pipe(server).pipe(client)
      })
    })
    await new Promise<void>((resolve) => pooler.listen(0, '127.0.0.1', resolve))
    t.teardown(() => pooler.close())
    const pooled = new URL(url)
    pooled.host = `127.0.0.1:${(pooler.address() as { port: number }).port}`
    const connections = openConnections(pooled.href, { connectionsMax: 2, statementTimeoutMs: 1000 })
    for (let i = 0; i < 2; i++) {
      const client = await connections.connect()
      t.strictSame((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }])
      client.release(true)
    }
    t.strictSame(startups, [true, false, false])
    await connections.close()
  },
)

t.test('a connection has the time-out of statements', { skip: noPostgres }, async (t) => {
  const connections = openConnections(await createDatabase(), { connectionsMax: 1, statementTimeoutMs: 1234 })
  const client = await connections.connect()
  t.strictSame((await client.query('SHOW statement_timeout')).rows, [{ statement_timeout: '1234ms' }])
  client.release()
  await connections.close()
})
