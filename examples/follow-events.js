// @ts-check
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createClient } from '@ingest/client'
import { createIngest, eventLine } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'
import { inDirectory } from './check.js'

/**
 * Appends the events of a project to a file, each exactly once, however often the process is killed and restarted.
 *
 * No single write makes both the lines and the cursor durable, so a crash may happen between the two. Therefore the
 * lines are synced first; then the cursor and the length of the file up to it are saved together, in one file that is
 * replaced atomically. After a crash, everything beyond the saved length is truncated and copied again: no event is
 * duplicated, and none is lost.
 *
 * @param {import('@ingest/core').Ingest} ingest embedded, or a client
 * @param {string} path
 * @param {(position: number) => void} onSaved
 */
async function copyEvents(ingest, path, onSaved) {
  const saved = await readFile(`${path}.cursor`, 'utf8').catch(() => '{"position":0}')
  /** @type {{ after?: string, position: number }} */
  let { after, position } = JSON.parse(saved)
  const file = await open(path, 'a')
  await file.truncate(position)
  for (;;) {
    const lines = []
    // up to a thousand stored events; a long poll when there is none
    for await (const event of ingest.readEvents({ ...(after && { after }), limit: 1000, waitMs: 60_000 })) {
      lines.push(eventLine(event))
      after = event.cursor
    }
    if (lines.length === 0) continue
    const bytes = Buffer.concat(lines)
    await file.appendFile(bytes)
    await file.datasync()
    position += bytes.length
    await replaceFile(`${path}.cursor`, JSON.stringify({ after, position }))
    onSaved(position)
  }
}

/**
 * @param {string} path
 * @param {string} text
 */
async function replaceFile(path, text) {
  const file = await open(`${path}.new`, 'w')
  await file.writeFile(text)
  await file.datasync()
  await file.close()
  await rename(`${path}.new`, path)
}

const [, , url, path = ''] = process.argv
if (url?.startsWith('http:')) {
  const client = createClient({ url, projectId: 'demo', key: process.env.INGEST_KEY ?? '' })
  await copyEvents(client, path, (position) => console.log(position)).catch((error) => {
    if (error.code !== 'invalid-cursor') throw error
    // the cursor belongs to another store, or a backup was restored
    console.error(`${error.message} Remove ${path} and ${path}.cursor to copy all events again.`)
    process.exitCode = 2
  })
}

await inDirectory(async (directory) => {
  const copy = join(directory, 'events.ndjson')
  for (const old of [copy, `${copy}.cursor`]) await rm(old, { force: true })
  const ingest = createIngest({ store: await openLmdbStore(join(directory, 'data')) })
  const { key } = await ingest.keys.create('demo')
  const server = await serve({ ingest, port: 0 })
  const run = String(Date.now())
  const crashes = 2

  for (let i = 0; i <= crashes; i++) {
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url), server.url, copy], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, INGEST_KEY: key },
    })
    process.once('exit', () => child.kill('SIGKILL'))
    const saved = createInterface(child.stdout)[Symbol.asyncIterator]()
    // kill the process after it has copied something, while more is sent
    await send(ingest.project('demo'), `${run}-${i}-a`)
    await saved.next()
    const sending = send(ingest.project('demo'), `${run}-${i}-b`)
    // the last process is killed after it has copied everything
    if (i === crashes) {
      await sending
      const size = Buffer.concat(await linesOf(ingest.project('demo'))).length
      while (Number((await saved.next()).value) < size);
    }
    child.kill('SIGKILL')
    await Promise.all([sending, once(child, 'exit')])
    // as a crash may leave it: an unsaved, incomplete line
    if (i < crashes) await appendFile(copy, '{"cursor":"1-0","receivedAt":1,"eve')
  }

  assert.equal(await readFile(copy, 'utf8'), Buffer.concat(await linesOf(ingest.project('demo'))).toString())
  await server.close()
  await ingest.close()
  return `each event was copied once, by ${crashes + 1} processes of which each was killed`
})

/**
 * @param {import('@ingest/core').Ingest} ingest
 * @param {string} name
 */
async function send(ingest, name) {
  for (let i = 0; i < 20; i++) {
    const events = Array.from({ length: 50 }, (_, k) => ({ projectId: 'demo', eventId: `${name}-${i}-${k}` }))
    await ingest.submitBatch({ events })
  }
}

/** @param {import('@ingest/core').Ingest} ingest */
async function linesOf(ingest) {
  const lines = []
  for await (const event of ingest.readEvents()) lines.push(eventLine(event))
  return lines
}
