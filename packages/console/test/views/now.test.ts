import type { Page } from 'puppeteer-core'
import t from 'tap'
import { formatCount } from '../../page/format.ts'
import { checkAccessibility, openBrowser, screenshot, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

type Project = Awaited<ReturnType<typeof startConsole>>['project']

let count = 0
/** New events of one build, and as many as asked for of which one thing is wrong. */
function send(project: Project, accepted: number, rejected = 0) {
  const event = (index: number) => ({
    projectId,
    eventId: `e-${count++}`,
    buildId: '2026.11.20',
    type: index < accepted ? 'round.start' : 7,
  })
  const events = Array.from({ length: accepted + rejected }, (_, index) => event(index))
  return project.submitBatch(Buffer.from(JSON.stringify({ events })))
}

const rateShown = 'over the last minute'

const figure = (page: Page, name: string) =>
  page.$$eval(
    '.figures > div',
    (figures, name) => figures.find((each) => each.firstChild?.textContent === name)?.lastChild?.textContent,
    name,
  )

/** Whether the canvas of the first chart inside of the selector has a pixel in the colour of a CSS custom property. */
const hasColor = (page: Page, selector: string, property: string) =>
  page.waitForFunction(
    (selector, property) => {
      const canvas = document.querySelector<HTMLCanvasElement>(`${selector} canvas`)
      const color = getComputedStyle(document.documentElement).getPropertyValue(property)
      if (!canvas) return false
      // of the page's own canvas, reading would be slow, which the browser says in its console
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true })
      copy?.drawImage(canvas, 0, 0)
      const { data } = copy?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] }
      const [red, green, blue] = [1, 3, 5].map((start) => Number.parseInt(color.slice(start, start + 2), 16))
      for (let at = 0; at < data.length; at += 4) {
        if (data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255) return true
      }
      return false
    },
    {},
    selector,
    property,
  )

browserTest('the minutes, what is stored and whether the server is ready', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await send(project, 60, 3)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-0' }] })
  const { page } = await openPage({ url, key })
  await waitForText(page, 'A batch sent now would be stored.')
  await waitForText(page, rateShown)
  const { events } = await project.getStats()
  await page.waitForFunction(
    (text) => document.querySelector('.figures')?.textContent?.includes(text),
    {},
    formatCount(events),
  )
  t.equal(await figure(page, 'Builds'), '1 1 frozen')
  t.match(await figure(page, 'Last event'), /^\d\d:\d\d:\d\d \d+ s ago$/)
  t.equal(await page.$eval('.outcome.duplicates strong', (element) => element.textContent), '1')
  t.equal(await page.$eval('.outcome.rejected a', (link) => link.getAttribute('href')), '#/rejected')
  t.match(await page.$eval('.outcome.rejected .chart', (chart) => chart.ariaLabel), /Rejected: most at \d\d:\d\d, 3;/)
  for (const outcome of ['accepted', 'duplicates', 'rejected']) await hasColor(page, `.${outcome}`, `--${outcome}`)
  await page.setViewport({ width: 1280, height: 1000 })
  await screenshot(page, 'now')
  await checkAccessibility(page)
  await page.setViewport({ width: 380, height: 800 })
  await page.waitForFunction(() => document.documentElement.scrollWidth === 380)
})

browserTest('a project without events says so, until the first one', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/now`, key })
  await waitForText(page, 'No event is stored in this project yet.')
  t.equal(await page.$eval('main .notice a', (link) => link.getAttribute('href')), '#/try')
  t.equal(await page.$('.figures'), null)
  await checkAccessibility(page)
  await send(project, 1)
  await page.waitForSelector('.figures')
  t.equal(await figure(page, 'Events'), '1')
})

browserTest('a server that is not ready says why, once', async (t, openPage) => {
  const { url, key, project, ingest } = await startConsole(t)
  await send(project, 1)
  const { page } = await openPage({ url, key, allow: [/status of 503/] })
  await page.waitForSelector('.figures')
  await ingest.close()
  await waitForText(page, 'Not ready: Store closed')
  await waitForText(page, 'start it again')
  await waitForText(page, 'not known now')
  t.equal((await page.$$('[role=alert]')).length, 1)
  t.equal(await figure(page, 'Events'), '1', 'what was loaded stays')
  await checkAccessibility(page)
})

browserTest('a server that is gone is a gap, and all goes on when it is back', async (t, openPage) => {
  const { url, key, project, server, start } = await startConsole(t)
  await send(project, 1)
  const { page } = await openPage({
    url,
    key,
    allow: [/ERR_CONNECTION_REFUSED/, /ERR_EMPTY_RESPONSE/, /status of 503/],
  })
  await waitForText(page, rateShown)
  await server.close()
  await waitForText(page, 'not known now')
  await waitForText(page, 'Whether the server is ready is not known.')
  // no new data redraws the chart
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'dark' }])
  await hasColor(page, '.accepted', '--accepted')
  await start({ port: Number(new URL(url).port) })
  await waitForText(page, rateShown)
  await waitForText(page, 'A batch sent now would be stored.')
  t.equal(await page.$('[role=alert]'), null)
})

const problem = (status: number, body: object) => ({
  status,
  contentType: 'application/problem+json',
  // longer than the test
  headers: { 'Retry-After': '3600' },
  body: JSON.stringify(body),
})

for (const [name, failure] of [
  ['not ready', problem(503, { code: 'disk-full', title: 'Disk full' })],
  ['gone', problem(502, {})],
] as const) {
  browserTest(`a server that was ${name} is asked for everything as soon as it is back`, async (_t, openPage) => {
    const { url, key, project } = await startConsole(_t)
    await send(project, 1)
    const { page } = await openPage({ url, key, allow: [/status of 50[23]/] })
    await page.waitForSelector('.figures')
    const failing = new Set(['/readyz', '/v1/stats'])
    await page.setRequestInterception(true)
    page.on('request', (request) => {
      const isFailing = failing.has(new URL(request.url()).pathname)
      return isFailing ? request.respond(failure) : request.continue()
    })
    await waitForText(page, 'not known now')
    await page.waitForFunction(() => !document.querySelector('.ready'))
    failing.clear()
    await waitForText(page, rateShown)
  })
}

browserTest('one of several servers says so; one without the route is of another version', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await send(project, 1)
  const { page } = await openPage({ url, key, allow: [/status of 404/] })
  let response = { status: 200, body: JSON.stringify({ since: new Date().toISOString(), servers: 3, minutes: [] }) }
  await page.setRequestInterception(true)
  page.on('request', (request) => {
    if (!request.url().endsWith('/v1/activity')) return request.continue()
    return request.respond({ ...response, contentType: 'application/json' })
  })
  await waitForText(page, 'one of 3 servers')
  response = { status: 404, body: '{"code":"not-found"}' }
  await page.reload()
  await waitForText(page, 'This server does not count events by minute: it is of another version')
  await page.waitForSelector('.figures')
})
