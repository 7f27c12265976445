// @ts-check
// A build script that publishes the map of each build with the `ingest` command, as a pipeline would: a new map, a small
// change, an unchanged map, and a change to a frozen build.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { inDirectory } from './check.js'

const bin = fileURLToPath(new URL('../packages/cli/bin/ingest.js', import.meta.url))

/**
 * Publishes the map of a build. Chunks that the server has are not sent again, so a failed step can be run again.
 *
 * @param {string} file
 * @param {string} buildId
 */
async function publish(file, buildId) {
  const args = ['publish-map', file, '--place', '920587237', '--build', buildId, '--json']
  const { exitCode, stdout } = await ingest(args)
  // only exit code 0 means published
  return { exitCode, ...JSON.parse(stdout) }
}

await inDirectory(async (directory) => {
  const data = join(directory, 'data')
  process.env.INGEST_PROJECT_ID = 'demo'
  process.env.INGEST_KEY = (await ingest(['keys', 'create', '--store', data])).stdout.trim()
  const server = spawn(
    process.execPath,
    [bin, 'serve', '--store', data, '--listen', '127.0.0.1:0', '--log-level', 'error'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const [line] = await once(createInterface(server.stdout), 'line')
  const url = line.replace('listening on ', '')
  process.env.INGEST_URL = url

  const file = join(directory, 'map.json')
  const parts = Array.from({ length: 40_000 }, (_, i) => ({ id: i, position: [i * 7, (i * i) % 1009, i % 13] }))
  await writeFile(file, JSON.stringify({ parts }))
  const first = await publish(file, 'build-1')
  assert.deepEqual([first.exitCode, first.ok, first.outcome], [0, true, 'created'])
  assert.equal(first.uploadedBytes, first.size)

  await writeFile(file, JSON.stringify({ parts: parts.with(20_000, { id: 20_000, position: [0, 0, 0] }) }))
  const second = await publish(file, 'build-2')
  assert.deepEqual([second.exitCode, second.outcome], [0, 'created'])
  assert(second.uploadedBytes < second.size)
  const again = await publish(file, 'build-2')
  assert.deepEqual([again.exitCode, again.outcome, again.uploadedBytes], [0, 'unchanged', 0])

  // a game server starts with the build, which freezes its map
  const events = [{ projectId: 'demo', eventId: 'e-1', type: 'round.start', buildId: 'build-2' }]
  assert.equal((await sendEvents(url, events)).status, 202)
  const published = await readFile(file)
  assert.deepEqual([(await publish(file, 'build-2')).exitCode], [0])
  await writeFile(file, JSON.stringify({ parts: [] }))
  const refused = await publish(file, 'build-2')
  assert.deepEqual([refused.exitCode, refused.ok, refused.error.code], [3, false, 'map-frozen'])

  const output = join(directory, 'download.json')
  await ingest(['maps', 'download', '--place', '920587237', '--build', 'build-2', '--output', output])
  assert((await readFile(output)).equals(published))

  server.kill('SIGTERM')
  await once(server, 'exit')
  return 'two builds were published, and a frozen one stayed as it was'
})

/**
 * @param {string[]} args
 * @returns {Promise<{ exitCode: unknown, stdout: string }>}
 */
function ingest(args) {
  return new Promise((resolve) => {
    execFile(process.execPath, [bin, ...args], (error, stdout) => resolve({ exitCode: error?.code ?? 0, stdout }))
  })
}

/**
 * @param {string} url
 * @param {object[]} events
 */
function sendEvents(url, events) {
  const headers = {
    'X-Project-Id': process.env.INGEST_PROJECT_ID ?? '',
    'X-Ingestion-Key': process.env.INGEST_KEY ?? '',
    'Content-Type': 'application/json',
  }
  return fetch(`${url}/v1/events/batch`, { method: 'POST', headers, body: JSON.stringify({ events }) })
}
