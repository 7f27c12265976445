import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, openBrowser, waitForText } from '../browser.ts'
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

const figure = (page: Page, name: string) =>
  page.$$eval(
    '.figures > div',
    (figures, name) => figures.find((each) => each.firstChild?.textContent === name)?.lastChild?.textContent,
    name,
  )

/** Waits until the figure `Events` has this value. */
const waitForEvents = (page: Page, events: number) =>
  page.waitForFunction((text) => document.querySelector('.figures')?.textContent?.includes(text), {}, `Events${events}`)

browserTest('the minutes, what is stored and whether the server is ready', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await send(project, 60, 3)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-0' }] })
  const { page } = await openPage({ url, key })
  await waitForText(page, 'A batch sent now would be stored.')
  await waitForEvents(page, 60)
  t.match(await figure(page, 'Events per second'), /^[\d.]+ over the last minute$/)
  t.match(await figure(page, 'Size of events'), /^[\d.]+ KiB$/)
  t.match(await figure(page, 'Last event'), /^\d\d:\d\d:\d\d \d+ s ago$/)
  t.equal(await page.$eval('.outcome.duplicates strong', (element) => element.textContent), '1')
  t.equal(await page.$eval('.outcome.rejected a', (link) => link.getAttribute('href')), '#/rejected')
  t.match(await page.$eval('.outcome.rejected .chart', (chart) => chart.ariaLabel), /Rejected: most at \d\d:\d\d, 3;/)
  for (const [outcome, count] of Object.entries({ accepted: 60, duplicates: 1, rejected: 3 })) {
    const bars = await page.$$eval(`.${outcome} .bars > span`, (bars) =>
      bars.map((bar) => ({ title: bar.title, share: bar.style.getPropertyValue('--share') })),
    )
    t.equal(bars.length, 60)
    const tallest = bars.filter(({ share }) => share === '100%').map(({ title }) => title.replace(/^\d\d:\d\d · /, ''))
    t.strictSame(tallest, [`${count}`], 'only the bar of the current minute is drawn')
  }
  await page.setViewport({ width: 1280, height: 1000 })
  await checkAccessibility(page, 'now')
  await page.setViewport({ width: 380, height: 800 })
  await page.waitForFunction(() => document.documentElement.scrollWidth === 380)
  await send(project, 1)
  await waitForEvents(page, 61)
})

browserTest('a project without events says so, until the first one', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/now`, key })
  await waitForText(page, 'No event is stored in this project yet.')
  t.equal(await page.$eval('main .notice a', (link) => link.getAttribute('href')), '#/try')
  t.equal(await page.$('.figures'), null)
  await checkAccessibility(page)
  await send(project, 1)
  await waitForEvents(page, 1)
})

browserTest('a server that is not ready says why, once', async (t, openPage) => {
  const { url, key, project, ingest } = await startConsole(t)
  await send(project, 1)
  const { page } = await openPage({ url, key, colorScheme: 'dark', allow: [/status of 503/] })
  await waitForEvents(page, 1)
  await ingest.close()
  await waitForText(page, 'Not ready: Store closed')
  await waitForText(page, 'start it again')
  await waitForText(page, 'not known now')
  t.equal((await page.$$('[role=alert]')).length, 1)
  t.equal(await figure(page, 'Events'), '1', 'what was loaded stays')
  await checkAccessibility(page)
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
  browserTest(`a server that was ${name} is asked for everything as soon as it is back`, async (t, openPage) => {
    const { url, key, project } = await startConsole(t)
    await send(project, 1)
    const { page } = await openPage({ url, key, allow: [/status of 50[23]/] })
    await waitForEvents(page, 1)
    const failing = new Set(['/readyz', '/v1/stats'])
    await page.setRequestInterception(true)
    page.on('request', (request) => {
      const isFailing = failing.has(new URL(request.url()).pathname)
      return isFailing ? request.respond(failure) : request.continue()
    })
    await page.waitForResponse((response) => response.url().endsWith('/v1/stats') && response.status() >= 500)
    await page.waitForFunction(() => !document.querySelector('.ready'))
    await send(project, 1)
    failing.clear()
    await waitForEvents(page, 2)
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
