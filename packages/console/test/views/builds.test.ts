import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Ingest } from '@ingest/core'
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, chooseBuild, openBrowser, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'
import { town } from './town.ts'

const browserTest = openBrowser(t)

const click = (page: Page, name: string) => page.locator(`::-p-aria(${name}[role="button"])`).click()

const buildId = '2026.11.20'
/** The browser's log of a request for a map that does not exist. */
const noMapYet = /status of 404.*\/v1\/maps\?/

function digestOf(bytes: string): `sha256:${string}` {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** A manifest whose chunks are these texts. */
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

browserTest('builds are shown in pages, newest first, and found by a part of their id', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  for (let build = 0; build < 101; build++) {
    await project.publishMap({ placeId: '1', buildId: `build-${1000 + build}`, map: { build } })
  }
  await freeze(project, 'build-1000')
  await freeze(project, 'build-1007')
  const { page } = await openPage({ url: `${url}#/maps`, key })
  const rowTexts = () => page.$$eval('tbody tr', (rows) => rows.map(({ textContent }) => textContent))
  await waitForText(page, 'build-1100')
  await page.waitForFunction(() => document.querySelector('tbody tr:last-child td:nth-child(4)')?.textContent === '1')
  const rows = await rowTexts()
  t.equal(rows.length, 100)
  t.match(rows[0], /^build-1100open–––1$/)
  t.match(rows[99], /^build-1007\d\d.*101$/, 'open builds, then the one that froze last, with its events')
  await checkAccessibility(page, 'builds')
  await click(page, 'Next page')
  await waitForText(page, 'build-1000')
  t.equal((await rowTexts()).length, 1, 'a page replaces the previous one')
  await click(page, 'Previous page')
  await waitForText(page, 'build-1100')
  await page.locator('input[name=search]').fill('BUILD-104')
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 10)
  t.match(await page.evaluate('location.hash'), /search=BUILD-104$/)
  await page.setViewport({ width: 380, height: 800 })
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380)
  await checkAccessibility(page, 'builds-narrow')
  await page.locator('::-p-text(build-1042)').click()
  await waitForText(page, 'Maps of build')
})

browserTest(
  'a map that is being uploaded shows its missing chunks, and opens when it is complete',
  async (t, openPage) => {
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
    await page.waitForSelector('pre')
    t.notOk(await page.$('progress'))
  },
)

browserTest(
  'a map appears when it is published, stays while its replacement is pending, and is frozen by an event',
  async (t, openPage) => {
    const { url, key, project } = await startConsole(t)
    const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=1`, key, allow: [noMapYet] })
    await waitForText(page, 'No map is published for this place and build.')
    await project.publishMap({ placeId: '1', buildId, map: { old: true } })
    await project.publishMap({ placeId: '1', buildId, manifest: manifestOf(['{"old":', 'false}']) })
    await waitForText(page, 'Pending replacement')
    await waitForText(page, '2 of 2 chunks missing')
    await waitForText(page, '"old"')
    await checkAccessibility(page)
    await upload(project, '1', ['{"old":', 'false}'])
    await page.waitForFunction(() => document.querySelector('pre')?.textContent?.includes('false'))
    t.notOk(await page.$('.pending'))
    await freeze(project, buildId)
    await waitForText(page, 'frozen since')
    const href = await page.$eval('.states a', (link) => link.getAttribute('href'))
    t.equal(href, `#/p/${projectId}/where?build=${buildId}&place=1`)
  },
)

browserTest('the beginning of a JSON map is shown, and its worker ends with the view', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const parts = Array.from({ length: 2_000 }, (_, id) => ({ id, position: [id, 0.5, -id] }))
  const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  await upload(project, '__proto__', [`{"seed":7.10,"parts":${JSON.stringify(parts)},"nested":${nested}}`])
  const address = `${url}#/maps/${buildId}?place=__proto__`
  const { page } = await openPage({ url: address, key, width: 380, colorScheme: 'dark' })
  await waitForText(page, 'The first 20,000 of')
  t.match(await page.$eval('pre', (pre) => pre.textContent), /^{\n {2}"seed": 7\.10,\n/)
  await checkAccessibility(page, 'map')
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  t.ok(overflow <= 0, 'the page does not scroll sideways at 380 px')
  t.equal(page.workers().length, 1)
  const ended = new Promise((resolve) => page.once('workerdestroyed', resolve))
  await page.locator('::-p-aria(Builds[role="link"])').click()
  await ended
  t.equal(page.workers().length, 0, 'the worker ends with the view of the map')
})

browserTest('a map has a picture of its parts, which needs no second download', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.publishMap({ placeId: 'town', buildId, map: town })
  await project.publishMap({ placeId: 'flat', buildId, map: [{ x: 0, y: 0, width: 10, height: 5 }] })
  await project.publishMap({ placeId: 'plain', buildId, map: { seed: 7 } })
  const { page, requests } = await openPage({ url: `${url}#/maps/${buildId}?place=town`, key })
  const waitForPicture = (label: string) =>
    page.waitForFunction((label) => document.querySelector('canvas')?.ariaLabel === label, {}, label)
  await waitForPicture('The map from above: 242 parts of the map.')
  t.equal(requests.filter((request) => request.url().includes('/v1/maps/content')).length, 1)
  await page.waitForFunction(() => {
    const canvas = document.querySelector('canvas') as HTMLCanvasElement
    const middle = [canvas.width / 2, canvas.height / 2] as const
    const { data } = (canvas.getContext('2d') as CanvasRenderingContext2D).getImageData(...middle, 40, 40)
    return new Set(new Uint32Array(data.buffer)).size > 1
  })
  await checkAccessibility(page, 'map-picture')
  await page.setViewport({ width: 380, height: 1_400 })
  await page.waitForFunction(() => document.documentElement.scrollWidth === 380)
  await checkAccessibility(page, 'map-picture-380')
  await page.goto(`${url}#/maps/${buildId}?place=flat`)
  await waitForPicture('The map from above: 1 part of the map.')
  await page.goto(`${url}#/maps/${buildId}?place=plain`)
  await waitForText(page, 'There is no picture of this map')
  t.equal(await page.$('canvas'), null)
})

browserTest('a map that is not JSON can be downloaded, until the key is refused', async (t, openPage) => {
  const { url, key, project, ingest } = await startConsole(t)
  await upload(project, 'text', ['hello world\n'], 'text/plain')
  await upload(project, 'broken', ['{"a":1,}'])
  const { page } = await openPage({ url: `${url}#/maps/${buildId}?place=broken`, key, allow: [/status of 401/] })
  await waitForText(page, 'The map is not valid JSON, although its content type is')
  await page.goto(`${url}#/maps/${buildId}?place=text`)
  await waitForText(page, 'Only JSON is shown here: download the map (text/plain).')
  await checkAccessibility(page)
  const directory = t.testdir()
  const download = () => page.locator('::-p-aria(Download[role="button"])').click()
  const file = await saveInto(page, directory, download)
  t.equal(file, `${buildId}-text.txt`)
  t.equal(await readFile(join(directory, file), 'utf8'), 'hello world\n')
  for (const { keyId } of await ingest.keys.list(projectId)) await ingest.keys.revoke(projectId, keyId)
  await download()
  await waitForText(page, 'The key was refused')
})

/** The name of the file that the browser wrote. */
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

browserTest('a build is chosen by its id; matching ids are offered while the user types', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  for (let build = 1000; build < 1120; build++) await freeze(project, `build-${build}`)
  const { page } = await openPage({ url: `${url}#/where?build=build-1103`, key, width: 380, colorScheme: 'dark' })
  const field = '::-p-aria(Build[role="combobox"])'
  const value = () => page.$eval(field, (input) => (input as HTMLInputElement).value)
  const waitForOffered = (count: number) =>
    page.waitForFunction((count) => document.querySelector('datalist')?.options.length === count, {}, count)
  await page.waitForSelector(field)
  t.equal(await value(), 'build-1103')
  await page.focus(field)
  await waitForOffered(100)
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380)
  await checkAccessibility(page, 'build-field')
  await page.keyboard.type('BUILD-111')
  await waitForOffered(10)
  t.match(await page.evaluate('location.hash'), /build=build-1103/, 'nothing is chosen yet')

  await chooseBuild(page, 'Build', '')
  t.equal(await value(), 'build-1103', 'a build must be chosen')
  await chooseBuild(page, 'Build', 'build-1042')
  await page.waitForFunction(() => location.hash.includes('build=build-1042'))
  await waitForText(page, 'All 1 event of the range.')
})
