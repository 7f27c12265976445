// @ts-check
// Runs the `ingest` command as a user would, and prints the requests and responses of a game server:
//
//     node examples/quickstart.js [--stay [--port 8787]] [directory]
//
// With --stay, the server runs until Ctrl-C, with a console that shows demo traffic. Without a directory, a temporary one
// is used and removed.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const bin = join(root, 'packages/cli/bin/ingest.js')
const projectId = 'demo'
const buildId = '2026.11.20'
/** Event ids are permanent, so every run needs its own. */
const suffix = randomBytes(4).toString('hex')

/** The parent at the start: `process.ppid` changes when it exits. */
const parent = process.ppid

const { stay, port, directory: named = stay ? join(root, 'data/quickstart') : undefined } = parseCommandLine()
/** With --stay, exports only new events, because earlier runs have left many. */
const exported = stay ? ['--from', new Date().toISOString()] : []

try {
  if (!existsSync(join(root, 'packages/cli/dist'))) throw new Error('nothing is built: run `npm run build`')
  await run()
} catch (error) {
  console.error(`quickstart failed: ${reasonOf(error)}`)
  process.exitCode = 1
}

/** @returns {{ stay: boolean, port: number, directory: string | undefined }} */
function parseCommandLine() {
  try {
    const options = /** @type {const} */ ({ stay: { type: 'boolean' }, port: { type: 'string', default: '8787' } })
    const { values, positionals } = parseArgs({ options, allowPositionals: true })
    if (positionals.length > 1) throw new Error(`Unexpected argument '${positionals[1]}'`)
    const port = Number(values.port)
    if (!/^\d+$/.test(values.port) || port > 65_535) throw new Error(`'${values.port}' is not a port`)
    return { stay: values.stay ?? false, port, directory: positionals[0] }
  } catch (error) {
    console.error(`quickstart: ${reasonOf(error)}`)
    process.exit(2)
  }
}

async function run() {
  const directory = named ?? (await mkdtemp(join(tmpdir(), 'ingest-quickstart-')))
  try {
    await mkdir(directory, { recursive: true })
    const key = await createKey(directory)
    const server = await startServer(directory, stay ? await freePort(port) : 0)
    try {
      const target = { url: server.url, projectId, key, buildId }
      // before the first event, which freezes it
      if (stay) await (await import('./demo-traffic.js')).publishDemoMap(target)
      await show(server.url, key, directory)
      if (stay) await invite(server, target, directory)
    } finally {
      await server.stop()
    }
    console.log('\nThe server drained and stopped.')
  } finally {
    if (named === undefined) await rm(directory, { recursive: true })
  }
}

/**
 * Prints how to open the console and a batch to send, and sends demo traffic until the server stops.
 *
 * @param {{ url: string, stopped: Promise<void> }} server
 * @param {import('./demo-traffic.js').Target} target
 * @param {string} directory
 */
async function invite({ url, stopped }, target, directory) {
  const readKey = await createKey(directory, '--scope', 'read')
  const stopping = new AbortController()
  const { sendDemoTraffic } = await import('./demo-traffic.js')
  const sent = sendDemoTraffic(target, stopping.signal).catch((error) => {
    console.error(`the demo traffic ended: ${reasonOf(error)}`)
  })
  console.log(`\nConsole: ${url}/console/  project ${projectId}  key ${readKey}`)
  console.log('It shows demo traffic from an arena, about 15 events a second.')
  console.log(`\nYour turn. Send this, then send it again:\n\n${curlLine(url, target.key)}\n`)
  console.log(`The events are kept in ${shown(directory)}. Ctrl-C stops the server.`)
  try {
    await stopped
  } finally {
    stopping.abort()
    await sent
  }
}

/**
 * @param {string} url
 * @param {string} key
 * @param {string} directory
 */
async function show(url, key, directory) {
  /** @param {object[]} events */
  const send = async (events) => {
    console.log('  POST /v1/events/batch')
    for (const event of events) console.log(`    ${JSON.stringify(event)}`)
    const response = await fetch(`${url}/v1/events/batch`, {
      method: 'POST',
      headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify({ events }),
    })
    const result = /** @type {import('@ingest/core').BatchResult} */ (await response.json())
    console.log(`  ${response.status} ${JSON.stringify(result)}`)
    assert.equal(response.status, 202)
    return result
  }
  const started = {
    projectId,
    eventId: `start-${suffix}`,
    type: 'round.start',
    buildId,
    timestamp: Date.now(),
  }
  const ended = { projectId, eventId: `end-${suffix}`, type: 'round.end', buildId, score: 12 }
  const invalid = { projectId, eventId: `invalid-${suffix}`, type: 'round.end', buildId: 7 }
  const joined = { projectId, eventId: `join-${suffix}`, type: 'player.join', playerId: 1234567890 }

  console.log('\nA batch:')
  assert.deepEqual(await send([started, ended]), { accepted: 2, duplicates: 0, rejected: [] })

  console.log('\nThe same batch again, as after a lost response:')
  assert.deepEqual(await send([started, ended]), { accepted: 0, duplicates: 2, rejected: [] })

  console.log('\nA batch with one invalid event, which does not fail the others:')
  const mixed = await send([invalid, joined])
  assert.deepEqual([mixed.accepted, mixed.duplicates, mixed.rejected.length], [1, 0, 1])
  assert.deepEqual([mixed.rejected[0]?.index, mixed.rejected[0]?.eventId], [0, invalid.eventId])

  const options = ['export', '--store', shown(directory), '--project', projectId, ...exported]
  console.log(`\nThe stored events, by \`ingest ${options.join(' ')}\`:`)
  const lines = (await ingest(...options)).trim().split('\n')
  const ours = lines.filter((line) => line.includes(suffix))
  for (const line of ours) console.log(`  ${line}`)
  if (ours.length < lines.length) console.log(`  and ${lines.length - ours.length} events of earlier runs`)
  assert.deepEqual(
    ours.map((line) => JSON.parse(line).event),
    [started, ended, joined],
  )
}

/**
 * @param {string} directory
 * @param {string[]} options
 */
async function createKey(directory, ...options) {
  return (await ingest('keys', 'create', '--store', directory, '--project', projectId, ...options)).trim()
}

/**
 * @param {string[]} args
 * @returns {Promise<string>} standard output
 */
async function ingest(...args) {
  const { stdout } = await promisify(execFile)(process.execPath, [bin, ...args], { maxBuffer: 2 ** 30 })
  return stdout
}

/**
 * Starts `ingest serve`, and forwards signals to it.
 *
 * @param {string} directory
 * @param {number} port
 */
async function startServer(directory, port) {
  const options = ['--listen', `127.0.0.1:${port}`, ...(stay ? ['--console', '--keep-rejected'] : [])]
  const server = spawn(process.execPath, [bin, 'serve', '--store', directory, ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // a process group of its own, so that Ctrl-C reaches it once
    detached: true,
  })
  let log = ''
  server.stderr.setEncoding('utf8').on('data', (text) => {
    log = (log + text).slice(-4096)
  })
  const stopped = once(server, 'exit').then(([code, signal]) => {
    if (code !== 0) throw new Error(`ingest serve ended with ${signal ?? `exit code ${code}`}: ${lastLine(log)}`)
  })
  // callers that await it handle the rejection; without any, it is not an unhandled one
  stopped.catch(() => {})
  process.once('exit', () => server.kill('SIGKILL'))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => server.kill('SIGTERM'))
  // npm forwards SIGTERM only to its shell, which ends and orphans this process
  if (process.env.npm_lifecycle_event) onOrphaned(() => server.kill('SIGTERM'))

  const first = await Promise.race([once(createInterface(server.stdout), 'line'), stopped])
  const url = /^listening on (http:\S+)$/.exec(String(first))?.[1]
  if (url === undefined) throw new Error(`ingest serve printed ${JSON.stringify(String(first))}, not its address`)
  console.log(`ingest serve --store ${shown(directory)} ${options.join(' ')}\n${first}`)
  return {
    url,
    stopped,
    stop() {
      server.kill('SIGTERM')
      return stopped
    },
  }
}

/**
 * Calls `stop` once this process has another parent.
 *
 * @param {() => void} stop
 */
function onOrphaned(stop) {
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stop()
  }, 200).unref()
}

/**
 * @param {number} wanted
 * @returns {Promise<number>} the wanted port, or 0 if it is taken: the system chooses one then
 */
async function freePort(wanted) {
  const probe = createServer().listen(wanted, '127.0.0.1')
  try {
    await once(probe, 'listening')
    return wanted
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EADDRINUSE') throw error
    console.log(`Port ${wanted} is taken, so the server uses another.`)
    return 0
  } finally {
    probe.close()
  }
}

/**
 * @param {string} url
 * @param {string} key
 */
function curlLine(url, key) {
  const event = { projectId, eventId: `curl-${suffix}`, type: 'hello' }
  const headers = [`X-Project-Id: ${projectId}`, `X-Ingestion-Key: ${key}`, 'Content-Type: application/json']
  const options = headers.map((header) => `-H '${header}'`).join(' ')
  return `curl ${url}/v1/events/batch ${options} -d '${JSON.stringify({ events: [event] })}'`
}

/** @param {string} directory */
function shown(directory) {
  const path = relative('', directory)
  return path.startsWith('..') ? directory : path
}

/** @param {any} error */
function reasonOf(error) {
  return (
    lastLine(error.stderr ?? '') ||
    String(error.cause?.message ?? error.message)
      .split('\n')
      .join(' ')
  )
}

/** @param {string} text */
function lastLine(text) {
  return text.trim().split('\n').at(-1) ?? ''
}
