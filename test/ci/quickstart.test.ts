import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { root } from '../repository.ts'

t.test(
  'the quickstart runs until a signal, with a console in which things happen, and restarts on its data',
  async (t) => {
    const directory = t.testdir()
    const taken = createServer().listen(0, '127.0.0.1')
    t.teardown(() => taken.close())
    await once(taken, 'listening')
    const port = String((taken.address() as AddressInfo).port)

    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const { child, exit, output } = start(t, ['--stay', '--port', port, directory])
      for await (const line of createInterface(child.stdout)) {
        const [, url, projectId, key] = /^Console: (\S+) {2}project (\S+) {2}key (\S+)$/.exec(line) ?? []
        if (url && projectId && key) await checkConsole(t, url, { 'X-Project-Id': projectId, 'X-Ingestion-Key': key })
        if (line.includes('Ctrl-C stops')) child.kill(signal)
      }
      t.strictSame(await exit, [0, null])
      t.match(await output, `Port ${port} is taken`)
      t.match(await output, /^curl http:.* -d '.*'$/m)
      t.match(await output, 'The server drained and stopped.')
    }
  },
)

/** The console is served, its key may read and no more, and the map and new events with positions are there. */
async function checkConsole(t: Test, url: string, headers: Record<string, string>) {
  const send = (path: string, init: RequestInit = {}) => fetch(new URL(path, url), { headers, ...init })
  t.equal((await send('')).status, 200)
  const sent = await send('../v1/events/batch', { method: 'POST', body: '{"events":[]}' })
  t.equal(sent.status, 401)
  const listed = await (await send('../v1/maps?placeId=arena')).json()
  t.match(listed, { maps: [{ placeId: 'arena', state: 'complete', frozen: true }], next: null })
  const events = await (await send('../v1/events?type=player.move&wait=20')).text()
  t.match(events, /"type":"player\.move",.*"position":\{"x":-?[\d.]+,"y":3,"z":-?[\d.]+\}/)
}

t.test('a wrong option of the quickstart is one line, and exit code 2', async (t) => {
  for (const args of [['--prot', '1234'], ['--port', 'many'], ['--port', '65536'], ['--port'], ['one', 'two']]) {
    const { child, exit } = start(t, args)
    const [[code], message] = await Promise.all([exit, text(child.stderr)])
    t.equal(code, 2, args.join(' '))
    t.match(message, /^quickstart: .+\n$/, args.join(' '))
  }
})

t.test('a port that is refused is an error, and is not called taken', async (t) => {
  const refusing = `import { Server } from 'node:net'
    Server.prototype.listen = function () {
      const error = Object.assign(new Error('listen EACCES: permission denied'), { code: 'EACCES' })
      process.nextTick(() => this.emit('error', error))
      return this
    }`
  const preload = `--import=data:text/javascript,${encodeURIComponent(refusing)}`
  const { child, exit } = start(t, ['--stay', t.testdir()], [preload])
  const message = text(child.stderr)
  for await (const line of createInterface(child.stdout)) {
    t.fail(line)
    child.kill()
  }
  t.strictSame(await exit, [1, null])
  t.equal(await message, 'quickstart failed: listen EACCES: permission denied\n')
})

t.test('SIGTERM to `npm start` stops the server', { skip: process.platform === 'win32' && 'no signals' }, async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  // other tests use the build while this runs
  const manifest = JSON.stringify({ scripts: { start: scripts.start, build: 'node --version' } })
  const directory = t.testdir({ 'package.json': manifest })
  symlinkSync(join(root, 'examples'), join(directory, 'examples'))
  const args = ['start', '--', '--port', '0', join(directory, 'data')]
  const child = spawn('npm', args, { cwd: directory, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill())
  const exit = once(child, 'exit')
  let url = ''
  const lines: string[] = []
  for await (const line of createInterface(child.stdout)) {
    lines.push(line)
    url ||= /^Console: (\S+)/.exec(line)?.[1] ?? ''
    if (line.includes('Ctrl-C stops')) child.kill('SIGTERM')
  }
  await exit
  t.ok(lines.includes('The server drained and stopped.'))
  t.match(url, /^http:/)
  await t.rejects(fetch(url), 'nothing listens')
})

function start(t: Test, args: string[], options: string[] = []) {
  const child = spawn(process.execPath, [...options, join(root, 'examples/quickstart.js'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, exit: once(child, 'exit'), output: text(child.stdout) }
}
