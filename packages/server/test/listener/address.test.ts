import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type ServeOptions, serve } from '../../src/serve.ts'
import { requestBytes } from '../edges.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, openTestIngest } from '../test-ingest.ts'

async function setUp(t: Test) {
  // a short path: that of a Unix socket has at most 107 bytes
  const directory = mkdtempSync(join(tmpdir(), 'ingest-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const { ingest, headers } = await openTestIngest()
  const open = async (options: Partial<ServeOptions>) => {
    const served = await serve({ ingest, closeTimeoutMs: 1, ...options })
    t.teardown(() => served.close())
    return served
  }
  return { path: join(directory, 'ingest.sock'), open, headers }
}

const unixOnly = { skip: process.platform === 'win32' && 'no modes of files' }

t.test('a server on a Unix socket stores a batch, and removes its file when it closes', unixOnly, async (t) => {
  const { path, open, headers } = await setUp(t)
  const served = await open({ socket: path })
  t.equal(served.url, `unix:${path}`)
  t.equal(statSync(path).mode & 0o777, 0o660)
  const raw = await openRaw(path)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
  raw.socket.destroy()
  await served.close()
  t.notOk(existsSync(path))
})

t.test('the socket of a live server is refused, and that server stays reachable', unixOnly, async (t) => {
  const { path, open } = await setUp(t)
  await open({ socket: path })
  await t.rejects(open({ socket: path }), { code: 'EADDRINUSE' })
  const raw = await openRaw(path)
  raw.write(requestBytes({ method: 'GET', path: '/livez' }))
  t.equal((await raw.read()).status, 200)
  raw.socket.destroy()
})

t.test('the socket that a killed process left is replaced', unixOnly, async (t) => {
  const { path, open } = await setUp(t)
  const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  t.throws(() => execFileSync(process.execPath, ['-e', script], { stdio: 'ignore' }))
  t.ok(existsSync(path))
  await open({ socket: path })
  const raw = await openRaw(path)
  raw.write(requestBytes({ method: 'GET', path: '/livez' }))
  t.equal((await raw.read()).status, 200)
  raw.socket.destroy()
})

t.test('a file that is no socket is never replaced', unixOnly, async (t) => {
  const { path, open } = await setUp(t)
  writeFileSync(path, 'data')
  await t.rejects(open({ socket: path }), { code: 'EADDRINUSE' })
  t.ok(statSync(path).isFile())
})

t.test('a socket with a host or a port is refused', async (t) => {
  const { path, open } = await setUp(t)
  for (const options of [
    { socket: path, host: '127.0.0.1' },
    { socket: path, port: 0 },
  ]) {
    await t.rejects(open(options), { code: 'invalid-argument' })
    t.notOk(existsSync(path))
  }
})

t.test('a path that a system would cut off is refused', unixOnly, async (t) => {
  const { path, open } = await setUp(t)
  await t.rejects(open({ socket: path.padEnd(104, 'x') }), { code: 'invalid-argument', message: /at most 103 bytes/ })
})
