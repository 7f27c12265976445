import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Ingest } from '@ingest/core'
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, openBrowser, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)
const buildId = '2026.11.20'
/** The browser's log of a request for a map that does not exist. */
const noMapYet = /status of 404.*\/v1\/maps\?/

function digestOf(bytes: string): `sha256:${string}` {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** A manifest of chunks that are the texts. */
function manifestOf(chunks: readonly string[], contentType = 'application/json') {
  const text = chunks.join('')
  return {
    contentType,
    size: Buffer.byteLength(text),
    digest: digestOf(text),
    chunks: chunks.map((chunk) => ({ digest: digestOf(chunk), size: Buffer.byteLength(chunk) })),
  }
}

async function upload(project: Ingest, placeId: string, chunks: readonly string[], contentType?: string) {
  await project.publishMap({ placeId, buildId, manifest: manifestOf(chunks, contentType) })
  await project.putChunks(chunks.map((chunk) => ({ digest: digestOf(chunk), bytes: Buffer.from(chunk) })))
}

async function freeze(project: Ingest, frozenBuildId: string) {
  const eventId = `freeze-${frozenBuildId}`
  await project.submitBatch({ events: [{ projectId, eventId, type: 'round.start', buildId: frozenBuildId }] })
}

async function press(page: Page, ...keys: ('ArrowRight' | 'ArrowDown' | 'ArrowLeft' | 'End' | 'Home' | 'Enter')[]) {
  for (const key of keys) await page.keyboard.press(key)
}

async function focusTree(page: Page): Promise<void> {
  await page.waitForSelector('[role=treeitem][aria-level="2"]')
  await page.focus('[role=treeitem][tabindex="0"]')
}

/** The text of the row with the focus. */
const focusedRow = (page: Page) => page.evaluate(() => document.activeElement?.textContent)

browserTest('a project without builds says how to publish a map', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/maps`, key })
  await waitForText(page, 'No builds yet')
  await waitForText(page, 'ingest publish-map')
  await checkAccessibility(page)
  await freeze(project, buildId)
  await page.reload()
  await page.locator(`::-p-text(${buildId})`).click()
  await waitForText(page, 'No map is published for this build.')
})

browserTest('builds and maps come in pages', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  for (let build = 0; build < 101; build++) {
    await project.publishMap({ placeId: '1', buildId: `build-${1000 + build}`, map: { build } })
  }
  await freeze(project, 'build-1000')
  const { page } = await openPage({ url: `${url}#/maps`, key })
  await waitForText(page, 'build-1099')
  t.equal((await page.$$('tbody tr')).length, 101, '100 builds and the button')
  t.match(await page.$eval('tbody tr', (row) => row.textContent), /^build-1000\d\d.*1$/, 'frozen')
  t.match(await page.$eval('tbody tr:nth-child(2)', (row) => row.textContent), /^build-1001open1$/)
  await checkAccessibility(page, 'builds')
  await page.locator('::-p-aria(Show more[role="button"])').click()
  await waitForText(page, 'build-1100')
  await page.locator('input[name=build]').fill('build-1042')
  await page.locator('::-p-aria(Open[role="button"])').click()
  await waitForText(page, 'Maps of build build-1042')
})

browserTest('a map that is uploaded shows what is missing, and opens when it is complete', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const chunks = ['{"parts":[', ...Array.from({ length: 150 }, (_, index) => `${index},`), '0', ']}']
  await project.publishMap({ placeId: 'harbour', buildId, manifest: manifestOf(chunks) })
  const { page } = await openPage({ url: `${url}#/maps/${buildId}`, key })
  await page.locator('::-p-text(harbour)').click()
  await waitForText(page, '153 of 153 chunks missing')
  await page.locator('summary').click()
  await waitForText(page, 'and 53 more')
  await checkAccessibility(page, 'map-incomplete')
  await upload(project, 'harbour', chunks)
  await focusTree(page)
  t.notOk(await page.$('progress'))
})

browserTest('a replacement stands beside the map that it will replace', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.publishMap({ placeId: '1', buildId, map: { old: true } })
  await project.publishMap({ placeId: '1', buildId, manifest: manifestOf(['{"old":', 'false}']) })
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=1`, key })
  await waitForText(page, 'Pending replacement')
  await waitForText(page, '2 of 2 chunks missing')
  await waitForText(page, '"old"')
  await checkAccessibility(page)
  await upload(project, '1', ['{"old":', 'false}'])
  await page.waitForFunction(() => document.querySelector('[aria-level="2"]')?.textContent?.includes('false'))
  t.notOk(await page.$('.pending'))
})

browserTest('a map appears when it is published, and is frozen by an event', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=1`, key, allow: [noMapYet] })
  await waitForText(page, 'No map is published for this place and build.')
  await freeze(project, buildId)
  await project.publishMap({ placeId: '1', buildId, map: {} })
  await waitForText(page, 'frozen since')
  const href = await page.$eval('.states a', (link) => link.getAttribute('href'))
  t.equal(href, `#/where?build=${buildId}&place=1`)
})

browserTest('the tree of a JSON map is used by keyboard', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const map = { name: 'Harbour', parts: Array.from({ length: 250 }, (_, id) => ({ id, position: [id, 0.5, -id] })) }
  await upload(project, '1', [JSON.stringify({ seed: 7, ...map })])
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=1`, key })
  await focusTree(page)
  await press(page, 'ArrowDown')
  t.match(await focusedRow(page), /"seed": 7$/)
  await press(page, 'End', 'ArrowRight')
  await page.waitForSelector('[aria-level="3"]')
  await press(page, 'End')
  t.match(await focusedRow(page), /Show 100 more \(150 left\)/)
  await press(page, 'Enter')
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('100:'))
  await press(page, 'ArrowRight')
  await page.waitForSelector('[aria-level="4"]')
  await press(page, 'ArrowDown', 'ArrowDown')
  t.match(await focusedRow(page), /"position": \[ \] 3 elements/)
  await waitForText(page, '/parts/100/position')
  await checkAccessibility(page, 'map')
  const rows = await page.$$('[role=treeitem]')
  t.ok(rows.length < 80, `${rows.length} of 200 rows are in the page: those in sight`)
  await page.locator('input[name=pointer]').fill('/parts/249/position/2')
  await press(page, 'Enter')
  await waitForText(page, '-249')
  await page.locator('input[name=pointer]').fill('/parts/250')
  await press(page, 'Enter')
  await waitForText(page, 'There is nothing at this path.')
})

browserTest('names of any kind are shown, and long strings on request', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const long = 'x'.repeat(5_000)
  const text = `{"__proto__":{"constructor":[]},"":1,"${long}":"${long}","\\u202e<b>":null}`
  await upload(project, '__proto__', [text])
  const { page } = await openPage({
    url: `${url}#/maps/${buildId}?place=__proto__`,
    key,
    width: 380,
    colorScheme: 'dark',
  })
  await focusTree(page)
  const rows = await page.$$eval('[aria-level="2"]', (rows) => rows.map(({ textContent }) => textContent))
  t.match(rows, [/"__proto__": { } 1 member/, /"": 1$/, /^"x{100}…: "x{200}…$/, /"\\u202e<b>": null$/])
  await page.locator('::-p-text("x)').click()
  await page.locator('::-p-aria(Show all[role="button"])').click()
  await page.waitForFunction(
    (text) => document.querySelector('.json-details pre')?.textContent === text,
    {},
    `"${long}"`,
  )
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  t.ok(overflow <= 0, 'the page does not scroll sideways at 380 px')
  await checkAccessibility(page, 'map-narrow')
})

browserTest('what is not JSON is offered as a download', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await upload(project, 'text', ['hello world\n'], 'text/plain')
  await upload(project, 'broken', ['{"a":1,}'])
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=broken`, key })
  await waitForText(page, 'The map is not valid JSON, although its content type is')
  await page.goto(`${url}#/maps/${buildId}?place=text`)
  await waitForText(page, 'Only JSON is shown here: download the map (text/plain).')
  await checkAccessibility(page)
})

browserTest('a map is saved under a name that says what it is', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await upload(project, 'text', ['hello world\n'], 'text/plain')
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=text`, key })
  const directory = t.testdir()
  const file = await saveInto(page, directory, () => page.locator('::-p-aria(Download[role="button"])').click())
  t.equal(file, `${buildId}-text.txt`)
  t.equal(await readFile(join(directory, file), 'utf8'), 'hello world\n')
})

/** The name of the file that the browser has written. */
async function saveInto(page: Page, downloadPath: string, start: () => Promise<void>): Promise<string> {
  const session = await page.browser().target().createCDPSession()
  const browserContextId = page.browserContext().id as string
  await session.send('Browser.setDownloadBehavior', {
    behavior: 'allow',
    downloadPath,
    browserContextId,
    eventsEnabled: true,
  })
  let name = ''
  session.on('Browser.downloadWillBegin', ({ suggestedFilename }) => {
    name = suggestedFilename
  })
  const completed = new Promise<void>((resolve) => {
    session.on('Browser.downloadProgress', ({ state }) => state === 'completed' && resolve())
  })
  await start()
  await completed
  return name
}

browserTest('the worker ends with the map that it holds', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.publishMap({ placeId: '1', buildId, map: {} })
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=1`, key })
  await page.waitForSelector('[role=treeitem]')
  t.equal(page.workers().length, 1)
  const ended = new Promise((resolve) => page.once('workerdestroyed', resolve))
  await page.locator('::-p-aria(Builds[role="link"])').click()
  await ended
  t.equal(page.workers().length, 0)
})

browserTest('a refused key ends the session, also in the worker', async (t, openPage) => {
  const { url, key, ingest, project } = await startConsole(t)
  await upload(project, 'text', ['hello world\n'], 'text/plain')
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=text`, key, allow: [/status of 401/] })
  await waitForText(page, 'Only JSON is shown here: download the map (text/plain).')
  const [{ keyId } = { keyId: '' }] = await ingest.keys.list(projectId)
  await ingest.keys.revoke(projectId, keyId)
  await page.locator('::-p-aria(Download[role="button"])').click()
  await waitForText(page, 'The key was refused')
})
