import { launchBrowser } from './chromium.js'

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {{ tasks: number[], frames: number[] }} Measured In milliseconds. */

export const projectId = 'measured'

/**
 * Opens a view of the console, signed in. `requests` counts what the page and its workers request.
 *
 * @param {{ url: string, key: string, view: string }} options
 */
export async function openMeasuredPage({ url, key, view }) {
  const { browser, page } = await launchMeasuredPage({ projectId, key })
  const counted = { requests: 0 }
  page.on('request', () => void counted.requests++)
  await page.goto(`${url}/console/#/p/${projectId}/${view}`)
  await page.waitForSelector('nav')
  return { browser, page, counted }
}

/**
 * An empty page in a new browser; the console that it opens is signed in.
 *
 * @param {{ projectId: string, key: string }} session
 */
export async function launchMeasuredPage(session) {
  const browser = await launchBrowser()
  const page = await browser.newPage()
  page.on('pageerror', (error) => console.error(error))
  await page.evaluateOnNewDocument(watchFrames)
  await page.evaluateOnNewDocument((session) => {
    sessionStorage.setItem('ingest-sessions', JSON.stringify([session]))
  }, session)
  return { browser, page }
}

/** In the page: notes each long task and the time between frames. */
function watchFrames() {
  /** @type {Measured} */
  const measured = { tasks: [], frames: [] }
  Object.assign(globalThis, { measured })
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) measured.tasks.push(duration)
  }).observe({ type: 'longtask', buffered: true })
  let last = performance.now()
  const onFrame = () => {
    const now = performance.now()
    measured.frames.push(now - last)
    last = now
    requestAnimationFrame(onFrame)
  }
  requestAnimationFrame(onFrame)
}

/**
 * The long tasks and frame gaps since the last call.
 *
 * @param {Page} page
 */
export async function readMeasured(page) {
  const { tasks, frames } = await page.evaluate(() => {
    const { tasks, frames } = /** @type {{ measured: Measured }} */ (/** @type {unknown} */ (globalThis)).measured
    return { tasks: tasks.splice(0), frames: frames.splice(0) }
  })
  frames.sort((a, b) => a - b)
  return {
    longestTaskMs: Math.round(Math.max(0, ...tasks)),
    longTasks: tasks.length,
    frameGapP99Ms: Math.round(frames[Math.floor(frames.length * 0.99)] ?? 0),
    frameGapMaxMs: Math.round(frames.at(-1) ?? 0),
  }
}

/**
 * The memory of the page after a garbage collection, without its workers.
 *
 * @param {Page} page
 */
export async function readMemory(page) {
  const session = await page.createCDPSession()
  await session.send('HeapProfiler.collectGarbage')
  await session.detach()
  const { JSHeapUsedSize = 0, Nodes = 0 } = await page.metrics()
  return { heapMiB: Math.round(JSHeapUsedSize / 1024 / 102.4) / 10, domNodes: Nodes }
}

/**
 * The memory of each worker.
 *
 * @param {Page} page
 */
export async function readWorkerMemory(page) {
  const heaps = await Promise.all(page.workers().map(({ client }) => client.send('Runtime.getHeapUsage')))
  return heaps.map(({ usedSize, backingStorageSize }) => ({
    heapMiB: Math.round(usedSize / 1024 / 1024),
    buffersMiB: Math.round((backingStorageSize ?? 0) / 1024 / 1024),
  }))
}
