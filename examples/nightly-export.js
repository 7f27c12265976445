// @ts-check
// A nightly export, as cron would run it: `ingest export` writes a file for each day that is over; each file is shipped
// under its name and removed. Killed at any point and run again, it ships each event once: a file that has its name is
// complete and never changes, and shipping it twice puts the same bytes under the same name.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { inDirectory } from './check.js'

const bin = fileURLToPath(new URL('../packages/cli/bin/ingest.js', import.meta.url))

/**
 * Exports new events and ships them. Rejects when either fails; the next run catches up.
 *
 * @param {string} data
 * @param {string} output
 * @param {(path: string, name: string) => Promise<void>} ship
 */
async function exportNight(data, output, ship) {
  const args = ['export', '--store', data, '--project', 'demo', '--output', output, '--every', 'day', '--gzip']
  await promisify(execFile)(process.execPath, [bin, ...args])
  // includes files that an earlier run left; hidden files belong to the export
  const names = (await readdir(output)).filter((name) => !name.startsWith('.')).sort()
  for (const name of names) {
    await ship(join(output, name), name)
    await rm(join(output, name))
  }
  return names
}

await inDirectory(async (directory) => {
  await mkdir(directory, { recursive: true })
  const own = await mkdtemp(join(directory, 'nights-'))
  const data = join(own, 'data')
  const output = join(own, 'export')
  const bucket = join(own, 'bucket')
  await mkdir(bucket)
  // a minute ahead, in case midnight passes while this runs
  const days = [4, 3, 2, 0].map((ago) => Date.now() + 60_000 - ago * 86_400_000)
  let now = 0
  const ingest = createIngest({ store: await openLmdbStore(data), now: () => now })
  const play = async (/** @type {number} */ day) => {
    now = days[day] ?? 0
    const events = ['round.start', 'round.end'].map((type) => ({ projectId: 'demo', eventId: `${type}-${day}`, type }))
    await ingest.project('demo').submitBatch({ events })
  }
  /** @param {string} path @param {string} name */
  const ship = (path, name) => copyFile(path, join(bucket, name))

  await play(0)
  await play(1)
  const dayOf = (/** @type {number} */ day) => new Date(days[day] ?? 0).toISOString().slice(0, 10).replaceAll('-', '')
  const shipped = await exportNight(data, output, ship)
  assert.deepEqual(
    shipped.map((name) => name.slice(0, 'demo-00000001-20261120'.length)),
    [`demo-00000001-${dayOf(0)}`, `demo-00000002-${dayOf(1)}`],
  )

  // shipping fails one night and succeeds the next; today is not over
  await play(2)
  await play(3)
  await assert.rejects(exportNight(data, output, () => Promise.reject(new Error('the bucket is away'))))
  assert.equal((await exportNight(data, output, ship)).length, 1)
  assert.deepEqual(await exportNight(data, output, ship), [])
  await ingest.close()

  const files = (await readdir(bucket)).sort()
  const lines = await Promise.all(files.map(async (name) => gunzipSync(await readFile(join(bucket, name))).toString()))
  const ids = lines.flatMap((text) => text.trim().split('\n')).map((line) => JSON.parse(line).event.eventId)
  assert.deepEqual(
    ids,
    [0, 1, 2].flatMap((day) => [`round.start-${day}`, `round.end-${day}`]),
  )
  return 'three days were exported, each event once; today is exported after it ends'
})
