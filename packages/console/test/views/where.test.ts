import type { Page } from 'puppeteer-core'
import t from 'tap'
import { fit, type Viewport } from '../../page/heat/viewport.ts'
import { margins, plotOf } from '../../page/views/where/draw-heat.ts'
import { checkAccessibility, chooseBuild, openBrowser, serverGone, tryNow, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'
import { town, townEvents } from './town.ts'

const browserTest = openBrowser(t)

const buildId = '2026.11.20'

let ids = 0

interface EventMembers {
  type?: string
  placeId?: string
  position?: object
  [name: string]: unknown
}

type Project = Awaited<ReturnType<typeof startConsole>>['project']

async function submit(project: Project, count: number, members: EventMembers): Promise<void> {
  const events = Array.from({ length: count }, () => ({ projectId, eventId: `e-${++ids}`, buildId, ...members }))
  for (let i = 0; i < count; i += 100) await project.submitBatch({ events: events.slice(i, i + 100) })
}

const at = (x: number, z: number, y = 3) => ({ position: { x, y, z } })

/** A range that is over when the page reads it. */
function rangeUntilNow(from: number): string {
  return `from=${new Date(from).toISOString()}&to=${new Date(Date.now() + 1).toISOString()}`
}

/** Waits for the label of the map for screen readers. */
async function waitForLabel(page: Page, text: string): Promise<void> {
  await page.waitForFunction((text) => document.querySelector('canvas')?.ariaLabel?.includes(text), {}, text)
}

const click = (page: Page, name: string) => page.locator(`::-p-aria(${name}[role="button"])`).click()

/** The colours of points of the map, from the canvas. */
async function colorsAt(page: Page, points: readonly (readonly [number, number])[], box: Parameters<typeof fit>[0]) {
  const size = await page.$eval('canvas', ({ clientWidth: width, clientHeight: height }) => ({ width, height }))
  const plot = plotOf(size)
  const { x, y, unitsPerPixel }: Viewport = fit(box, plot)
  const pixels = points.map(([across, down]) => ({
    x: Math.round(margins.left + plot.width / 2 + (across - x) / unitsPerPixel),
    y: Math.round(margins.top + plot.height / 2 + (down - y) / unitsPerPixel),
  }))
  return page.$eval(
    'canvas',
    (canvas, pixels) => {
      const { width, height } = canvas
      // the browser warns if a canvas is read several times
      const { data } = (canvas.getContext('2d') as CanvasRenderingContext2D).getImageData(0, 0, width, height)
      return pixels.map(({ x, y }) => [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)])
    },
    pixels,
  )
}

browserTest('events are counted by cell over the parts of the map', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const parts = [
    { position: [0, 0, 0], size: [400, 1, 200] },
    { position: [-100, 0, 0], size: [20, 9, 20] },
  ]
  await project.publishMap({ placeId: 'arena', buildId, map: { parts } })
  await submit(project, 30, { type: 'death', placeId: 'arena', ...at(102, 52) })
  await submit(project, 3, { type: 'shot', placeId: 'arena', ...at(-52, -48) })
  await submit(project, 5, { type: 'shot', placeId: 'lobby', ...at(-52, -48) })
  await submit(project, 2, { type: 'chat', placeId: 'arena' })
  // an earlier event of another build, which must not be read
  await project.submitBatch({ events: [{ projectId, eventId: 'other', buildId: '1', ...at(0, 0) }] })

  const { page, requests } = await openPage({ url: `${url}#/where?${rangeUntilNow(0)}`, key })
  await waitForText(page, 'All 40 events of the range.')
  const found = '33 of 35 events have both /position/x and /position/z. All of them are in view, in 2 cells of'
  await waitForLabel(page, found)
  await waitForText(page, 'Under the events: 2 parts of the map.')
  t.strictSame(await page.$$eval('.densest td:first-child', (cells) => cells.map((cell) => cell.textContent)), [
    '30',
    '3',
  ])
  t.strictSame(
    await page.$eval('.densest tbody tr', (row) => [...row.children].slice(1, 3).map((cell) => cell.textContent)),
    ['100 to 105', '50 to 55'],
  )

  const box = { left: -200, top: -100, right: 200, bottom: 100 }
  const [hot, warm, part, plain, outside] = await colorsAt(
    page,
    [
      [102, 52],
      [-52, -48],
      [-100, 0],
      [30, 80],
      [30, 130],
    ],
    box,
  )
  t.ok(luminance(hot) < luminance(warm) - 60, `many are darker than few on light: ${hot}, ${warm}`)
  t.ok(luminance(warm) < luminance(plain) - 10, `few are darker than none: ${warm}, ${plain}`)
  t.ok(luminance(part) < luminance(plain), `a part stands out from the part below it: ${part}, ${plain}`)
  t.strictSame(outside, [255, 255, 255])

  await page.locator('.types button:nth-of-type(3)').click()
  await waitForLabel(page, '3 of 3 events')
  t.match(await page.evaluate('location.hash'), /^#\/p\/game-1\/where\?.*&build=2026\.11\.20&type=shot$/)
  await page.select('select[name=place]', '')
  await waitForLabel(page, '8 of 8 events')
  const requestsBefore = requests.length
  await click(page, 'All types')
  await waitForLabel(page, '38 of 40 events')
  t.equal(requests.length, requestsBefore, 'these filters send no request')
})

browserTest('a single event is shown on its whole map', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.publishMap({ placeId: 'arena', buildId, map: { parts: [{ position: [0, 0, 0], size: [20, 1, 20] }] } })
  await submit(project, 1, { placeId: 'arena', ...at(1, 2) })
  const { page } = await openPage({ url: `${url}#/where?build=${buildId}`, key })
  await waitForLabel(page, '1 of 1 event')
  await waitForText(page, 'Under the events: 1 part of the map.')
  const box = { left: -10, top: -10, right: 10, bottom: 10 }
  const points = [
    [9, 9],
    [12, 9],
  ] as const
  const [floor, outside] = await colorsAt(page, points, box)
  t.ok(luminance(floor) < 250, `the floor is shown to its edge: ${floor}`)
  t.strictSame(outside, [255, 255, 255])
})

const luminance = ([red = 0, green = 0, blue = 0]: readonly number[] = []) =>
  0.2126 * red + 0.7152 * green + 0.0722 * blue

browserTest('the map works by keyboard, and its address can be shared', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await submit(project, 4, { type: 'a', ...at(2, 2), screen: { x: 7, y: 9 } })
  await submit(project, 1, { type: 'b', ...at(98, 58), screen: { x: 7, y: 9 } })
  const { page } = await openPage({ url: `${url}#/where?build=${buildId}&type=a&type=b`, key })
  await waitForLabel(page, '5 of 5 events have both /position/x and /position/z. All of them')
  await waitForText(page, 'Choose a place')
  await click(page, 'Show')
  await waitForText(page, '4 events')
  await page.keyboard.down('Shift')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.up('Shift')
  await waitForText(page, '0 events')
  for (let i = 0; i < 6; i++) await page.keyboard.press('+')
  await waitForLabel(page, '0 of them are in view')
  await page.keyboard.press('0')
  await waitForLabel(page, 'All of them are in view')
  await page.keyboard.press('ArrowRight')
  for (let i = 0; i < 12; i++) await page.keyboard.press('ArrowRight')
  await waitForLabel(page, '0 of them are in view')
  await click(page, 'Show everything')
  await waitForLabel(page, 'All of them are in view')

  await page.goto(`${url}#/where?build=${buildId}&across=%2Fscreen%2Fx&down=%2Fscreen%2Fy`)
  await waitForLabel(page, '5 of 5 events have both /screen/x and /screen/y')
  await page.select('select[name=coordinates]', '0')
  await waitForLabel(page, '5 of 5 events have both /position/x and /position/z')
  await waitForText(page, 'Choose a place')
  await checkAccessibility(page)
})

browserTest('two builds are shown side by side with the same number of events', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const other = 'b-2'
  await submit(project, 300, at(2, 2))
  await submit(project, 100, { type: 'fall', ...at(98, 58, 33) })
  await submit(project, 40, { buildId: other, ...at(2, 2) })
  await submit(project, 160, { buildId: other, ...at(98, 58, 33) })
  const { page } = await openPage({ url: `${url}#/where?build=${buildId}&range=1h`, key })
  await waitForLabel(page, '400 of 400 events')
  await chooseBuild(page, 'Beside it', other)
  await waitForText(page, 'Both pictures show 200 events, in the same area and colours.')
  const labels = await page.$$eval('canvas', (canvases) => canvases.map(({ ariaLabel }) => ariaLabel))
  t.match(labels, [
    /^2026\.11\.20: 400 of 400 events .* A sample of 200 events is shown: 50 %\. All of them are in view/,
    /^b-2: 200 of 200 events have both \/position\/x and \/position\/z\. All of them are in view/,
  ])
  const rows = await page.$$eval('.densest tbody tr', (rows) =>
    rows.map((row) => [...row.children].slice(0, 2).map(({ textContent }) => Number(textContent))),
  )
  t.equal(rows.length, 2)
  const sums = [0, 1].map((i) => rows.reduce((sum, row) => sum + (row[i] as number), 0))
  t.strictSame(sums, [200, 200], `the cells of a picture are its sample: ${JSON.stringify(rows)}`)
  t.strictSame(new Set(rows.map(([, ofB]) => ofB)), new Set([40, 160]), 'all events of the smaller build')
  t.strictSame(await page.$$eval('.heat-picture figcaption', (names) => names.map((name) => name.textContent)), [
    buildId,
    other,
  ])
  const text = await page.$eval('main', ({ textContent }) => textContent)
  t.notMatch(text, /differ|chance|more in|less in/i, 'no difference is claimed')
  const boxes = await page.$$eval('canvas', (canvases) => canvases.map((canvas) => canvas.getBoundingClientRect().top))
  t.equal(boxes[0], boxes[1], 'they are side by side')
  await checkAccessibility(page, 'where-two-builds')

  // both pictures show the same area: zooming in one zooms in both
  const [, second] = await page.$$('canvas')
  await second?.click()
  await page.keyboard.press('+')
  await page.waitForFunction(() => /[?&]at=/.test(location.hash))
  await page.locator('::-p-aria(Show everything[role="button"])').click()
  await click(page, 'Show')
  await page.waitForSelector('.cell-list li:nth-child(100)')
  await page.keyboard.press('+')
  await page.waitForFunction(() => /[?&]at=/.test(location.hash) && /[?&]cell=/.test(location.hash))
  const { page: linked } = await openPage({
    url: `${url}${await page.evaluate('location.hash')}`,
    key,
    width: 380,
    colorScheme: 'dark',
  })
  await waitForText(linked, 'Both pictures show 200 events')
  await linked.locator('.cell-list button').click()
  await waitForText(linked, 'Exact bytes')
  t.match(await linked.$eval('.cell-list a', ({ href }) => href), /#\/p\/game-1\/find\?id=e-\d+$/)
  t.equal(await linked.evaluate('document.documentElement.scrollWidth'), 380)
  await checkAccessibility(linked, 'where-cell')
  await chooseBuild(linked, 'Beside it', '')
  await waitForText(linked, '400 of 400 events have both')
})

browserTest('missing builds, events, coordinates and parts are explained', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/where`, key, width: 380, colorScheme: 'dark' })
  await waitForText(page, 'No builds yet')
  await project.publishMap({ placeId: 'arena', buildId, map: [1, 2] })
  await page.reload()
  await waitForText(page, 'This build is open')
  await submit(project, 3, { data: { lap: 3, name: 'a' } })
  await click(page, 'Check again')
  await waitForText(page, '3 events read, none with numeric coordinates')
  await waitForText(page, '/data/name')
  await checkAccessibility(page)
  await submit(project, 1, at(1, 2))
  await page.goto(`${url}#/where?build=${buildId}&across=%2Fdata%2Flap&down=%2Fz`)
  await page.reload()
  await waitForLabel(page, '1 of 4 events have both /position/x and /position/z')
  await waitForText(page, 'The map has no parts with positions and sizes.')

  await page.goto(`${url}#/where?build=${buildId}&range=2h`)
  await waitForText(page, 'The range in the address is unknown: showing the last 14 days.')
  await page.select('select[name=range]', 'custom')
  const fill = (name: string, text: string) =>
    page.$eval(`input[name=${name}]`, (input, text) => Object.assign(input, { value: text }), text)
  await fill('to', '2020-01-01T00:00')
  await click(page, 'Apply')
  await waitForText(page, 'The start is not before the end.')
  await fill('from', '2019-01-01T12:00')
  await click(page, 'Apply')
  await waitForText(page, 'No matching events in this time')
  t.match(await page.evaluate('location.hash'), /from=2019-01-0.*&to=20(19|20)-/)
  await checkAccessibility(page, 'where-range')
  t.equal(await page.evaluate('document.documentElement.scrollWidth'), 380)
})

browserTest('reading resumes where it stopped when the server is back', async (t, openPage) => {
  const { url, key, project, server, start } = await startConsole(t)
  await submit(project, 250, at(1, 1))
  const { page } = await openPage({ url: `${url}#/where`, key, allow: serverGone })
  await waitForText(page, 'All 250 events of the range.')
  await server.close()
  await submit(project, 5, at(2, 2))
  await waitForText(page, 'The server has not responded since')
  await start({ port: Number(new URL(url).port) })
  await tryNow(page)
  await waitForText(page, 'All 255 events of the range.')
  await waitForLabel(page, '255 of 255 events')
})

browserTest('the read rate limit pauses reading, which can be stopped', async (t, openPage) => {
  const { url, key, project } = await startConsole(t, { rateLimits: { readBytes: { perSecond: 500, burst: 100_000 } } })
  await submit(project, 500, { ...at(1, 1), note: 'x'.repeat(100) })
  const { page } = await openPage({ url: `${url}#/where`, key, allow: [/status of 429/] })
  await waitForText(page, 'for the read rate limit.')
  await waitForLabel(page, 'events have both /position/x and /position/z.')
  await click(page, 'Stop')
  await waitForText(page, 'Stopped.')
  await click(page, 'Read more')
  await waitForText(page, 'for the read rate limit.')
  t.pass()
})

browserTest('a sample of three days is drawn, grows on demand, and is kept', async (t, openPage) => {
  const days = 72 * 3_600_000
  const start = Date.now() - days
  let now = start
  const { url, key, project } = await startConsole(t, { now: () => now })
  await project.publishMap({ placeId: 'town', buildId, map: town })
  const events = townEvents(20_000).map((members) => ({ projectId, eventId: `e-${++ids}`, buildId, ...members }))
  for (let i = 0; i < events.length; i += 100) {
    now = start + Math.floor((i / events.length) * days)
    await project.submitBatch({ events: events.slice(i, i + 100) })
  }
  now = start + days
  const { page, requests } = await openPage({ url: `${url}#/where?${rangeUntilNow(start)}`, key })
  await waitForText(page, 'A sample of')
  await page.waitForSelector('::-p-aria(Read more[role="button"])')
  await waitForText(page, 'Under the events: 242 parts of the map.')
  await click(page, 'Show')
  await page.waitForSelector('.cell-list')
  await page.evaluate(() => scrollTo(0, 0))
  await checkAccessibility(page, 'where')
  // counted, not estimated
  await waitForText(page, ' of about 20,000, spread evenly')
  await waitForLabel(page, 'sampled events have both /position/x and /position/z.')
  await waitForText(page, 'Cells in view with the most sampled events')
  t.match(await page.$eval('.types legend', (legend) => legend.textContent), 'sampled events')
  // a type without coordinates has a way back
  await page.locator('.types button ::-p-text(chat.message)').click()
  await waitForText(page, 'none with numeric coordinates')
  await click(page, 'All types')
  await waitForLabel(page, 'sampled events have both /position/x and /position/z.')
  for (let doubled = 0; doubled < 3; doubled++) {
    const before = await page.$eval('.reading p', (line) => line.textContent)
    await click(page, 'Read more')
    await page.waitForFunction(
      (before) =>
        !['Reading…', before].some((text) => document.querySelector('.reading p')?.textContent.includes(text)),
      {},
      before,
    )
  }
  await waitForText(page, 'All 20,000 events of the range.')
  await waitForLabel(page, 'of 20,000 events have both /position/x and /position/z. All of them are in view')
  const eventRequests = () => requests.filter((request) => request.url().includes('/v1/events')).length
  const before = eventRequests()
  await page.locator('::-p-aria(Find[role="link"])').click()
  await waitForText(page, 'Enter the id of an event')
  await page.goBack()
  await waitForLabel(page, 'of 20,000 events have both')
  t.equal(eventRequests(), before, 'the sample is not read again')
})
