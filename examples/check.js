import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

/**
 * Runs an example in the directory named on the command line, or in a temporary one that is removed afterwards.
 *
 * @param {(directory: string) => Promise<string>} run resolves with the line to print
 */
export async function inDirectory(run) {
  const [, file = '', named] = process.argv
  const directory = named ?? (await mkdtemp(join(tmpdir(), 'ingest-example-')))
  try {
    console.log(`${basename(file)}: ${await run(directory)}`)
  } finally {
    if (named === undefined) await rm(directory, { recursive: true })
  }
}

/**
 * Starts a server, sends it a batch twice, requests one of the program's own routes, and stops it.
 *
 * @param {(directory: string, port: number) => Promise<{ ingest: import('@ingest/core').EmbeddedIngest, server: import('@hono/node-server').ServerType }>} start
 */
export async function checkServer(start) {
  await inDirectory(async (directory) => {
    const { ingest, server } = await start(directory, 0)
    if (!server.listening) await once(server, 'listening')
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
    const url = `http://127.0.0.1:${port}`
    const { key } = await ingest.keys.create('demo')

    const events = ['one', 'two'].map((type) => ({ projectId: 'demo', eventId: randomUUID(), type }))
    const first = await send(url, key, { events })
    assert.deepEqual(first, { status: 202, result: { accepted: 2, duplicates: 0, rejected: [] } })
    const again = await send(url, key, { events })
    assert.deepEqual(again, { status: 202, result: { accepted: 0, duplicates: 2, rejected: [] } })
    assert.equal((await send(url, 'no key', { events })).status, 401)
    assert.equal(await (await fetch(`${url}/hello`)).text(), 'hello\n')

    server.close()
    await once(server, 'close')
    await ingest.close()
    return 'a batch was accepted, the same again were duplicates, and /hello responded beside them'
  })
}

/**
 * @param {string} url
 * @param {string} key
 * @param {object} batch
 */
async function send(url, key, batch) {
  const response = await fetch(`${url}/v1/events/batch`, {
    method: 'POST',
    headers: { 'X-Project-Id': 'demo', 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(batch),
  })
  return { status: response.status, result: await response.json() }
}
