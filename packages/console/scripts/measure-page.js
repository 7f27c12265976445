import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { launchMeasuredPage, readMeasured } from './measured-page.js'

// Prints how long each view of the console takes with the very large project of `pnpm turns`, then what each request of
// the page costs the server:
//
//   pnpm turns DIRECTORY --only none && node packages/console/scripts/measure-page.js DIRECTORY [VIEW]
//
// For each view, in a new browser: milliseconds to the first paint, milliseconds until all its figures are shown, the
// longest task of the page, requests, KiB, and the server's longest turn when the view is opened again. For each request:
// the median of its milliseconds; the median and the maximum of its longest turn, and the median of the sum of its turns;
// KiB. Turns are measured in milliseconds of processor time. Linux only.

const [directory, only = ''] = process.argv.slice(2)
if (directory === undefined) throw new Error('Name the directory of the store.')
const projectId = 'large'
const rounds = 5
const { key, release } = await prepare(directory)
const server = fileURLToPath(new URL('../../bench/src/turns/measured-server.js', import.meta.url))
const child = fork(server, [directory, 'a-token-of-the-benchmark', new URL('../dist/index.js', import.meta.url).href])
const [{ url }] = await once(child, 'message')

/**
 * `shows` selects an element with figures. With `click`, the time since a click on that element is measured.
 *
 * @typedef {{ address: string, shows: string, click?: string }} View
 */
/** @type {Record<string, View>} */
const views = {
  Now: { address: 'now', shows: '.figures ~ section .volumes' },
  'Now, 24 hours': { address: 'now?range=24h', shows: '.figures ~ section .volumes' },
  'Now, 14 days': { address: 'now?range=14d', shows: '.figures ~ section .volumes' },
  Rejected: { address: 'rejected', shows: '.causes' },
  'Rejected, 24 hours': { address: 'rejected?range=24h', shows: '.causes' },
  'Rejected, 14 days': { address: 'rejected?range=14d', shows: '.causes' },
  Builds: { address: 'maps', shows: '.paged' },
  'Builds, next page': { address: 'maps', shows: '.paged', click: '.pages button:last-of-type' },
  'Builds, search of one': { address: 'maps?search=build-000000007', shows: '.paged' },
  'Builds, one of many maps': { address: 'maps/build-many-places', shows: '.paged' },
  Live: { address: 'live', shows: '.event-list' },
  'Live, a rare type': { address: 'live?type=type.77', shows: '.listed-line' },
  Find: { address: 'find?id=10-1', shows: '.found-id' },
  Where: { address: `where?build=${release}&range=24h`, shows: '.densest' },
  'Where, of the newest': { address: 'where', shows: '.empty' },
  Playback: { address: 'playback?player=player-7', shows: '.played' },
}

/** The views that made each request. @type {Map<string, Set<string>>} */
const requests = new Map()
for (const [name, view] of Object.entries(views)) {
  if (!name.includes(only)) continue
  const shown = await openView(name, view)
  // measuring turns takes a whole core
  await ask('begin')
  await openView(name, view)
  const { longestMs } = await ask('end')
  print([...shown, longestMs], name)
}
for (const [path, names] of requests) await measureRequest(path, [...names].join(', '))
child.disconnect()

/** @param {string} name @param {View} view */
async function openView(name, { address, shows, click }) {
  const { browser, page } = await launchMeasuredPage({ projectId, key })
  const traffic = watchTraffic(page, name)
  try {
    page.setDefaultTimeout(120_000)
    let startedAt = performance.now()
    await page.goto(`${url}/console/#/p/${projectId}/${address}`)
    await page.waitForSelector(shows)
    await traffic.quiet()
    if (click !== undefined) {
      startedAt = performance.now()
      await page.click(click)
      await traffic.quiet()
    }
    const shownMs = performance.now() - startedAt
    const { longestTaskMs } = await readMeasured(page)
    const paintMs = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0)
    return [paintMs, shownMs, longestTaskMs, traffic.counted.requests, traffic.counted.bytes / 1024]
  } finally {
    await browser.close()
  }
}

/**
 * Watches the requests of a page and its workers; `quiet` resolves when none is in flight, except long polls.
 *
 * @param {import('puppeteer-core').Page} page
 * @param {string} name
 */
function watchTraffic(page, name) {
  const quietMs = 50
  const inFlight = new Set()
  const counted = { requests: 0, bytes: 0 }
  let changedAt = performance.now()
  page.on('request', (request) => {
    const { pathname, search, searchParams } = new URL(request.url())
    if (!pathname.startsWith('/v1')) return
    changedAt = performance.now()
    counted.requests++
    const wait = searchParams.get('wait')
    if (wait === null || wait === '0') inFlight.add(request)
    // a long poll would wait for an event
    const path = pathname + search.replace(/wait=\d+/, 'wait=0')
    requests.set(path, (requests.get(path) ?? new Set()).add(name))
  })
  /** @param {import('puppeteer-core').HTTPRequest} request */
  async function end(request) {
    changedAt = performance.now()
    inFlight.delete(request)
    const response = request.response()
    if (!response?.ok()) console.error(request.url(), response?.status(), request.failure()?.errorText)
    else counted.bytes += Number(response.headers()['content-length'] ?? 0)
  }
  page.on('requestfinished', end)
  page.on('requestfailed', end)
  return {
    counted,
    async quiet() {
      do await sleep(quietMs)
      while (inFlight.size > 0 || performance.now() - changedAt < quietMs)
    },
  }
}

/** @param {string} path @param {string} names */
async function measureRequest(path, names) {
  const times = []
  const turns = []
  const sums = []
  let bytes = 0
  for (let round = 0; round < rounds; round++) {
    await ask('begin')
    const startedAt = performance.now()
    const response = await fetch(url + path, { headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key } })
    bytes = (await response.arrayBuffer()).byteLength
    times.push(performance.now() - startedAt)
    const { longestMs, busyMs } = await ask('end')
    turns.push(longestMs)
    sums.push(busyMs)
  }
  print([medianOf(times), medianOf(turns), Math.max(...turns), medianOf(sums), bytes / 1024], `${path} (${names})`)
}

/** @param {number[]} numbers @param {string} name */
function print(numbers, name) {
  console.log(...numbers.map((each) => each.toFixed(1).padStart(8)), '', name)
}

/** @param {number[]} numbers */
function medianOf(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0
}

/** @param {string} message */
async function ask(message) {
  const response = once(child, 'message')
  child.send(message)
  return (await response)[0]
}

/** @param {string} directory */
async function prepare(directory) {
  const ingest = createIngest({ store: await openLmdbStore(directory, { create: false }) })
  const { key } = await ingest.keys.create(projectId, { scopes: ['read'] })
  const { lastAt } = await ingest.project(projectId).getStats()
  await ingest.close()
  return { key, release: `release-${new Date(lastAt ?? 0).toISOString().slice(0, 10)}` }
}
