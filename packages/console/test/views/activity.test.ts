import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, openBrowser, waitForText } from '../browser.ts'
import { refusal, startProxy } from '../lying-proxy.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

type Project = Awaited<ReturnType<typeof startConsole>>['project']

let count = 0
/** Submits new valid and invalid events of one build. */
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

/** Waits until the figure `Events stored` has this value. */
const waitForEvents = (page: Page, events: number) =>
  page.waitForFunction(
    (text) => document.querySelector('.figures')?.textContent?.includes(text),
    {},
    `Events stored${events}`,
  )

browserTest('Now shows events by minute, type and build, and whether the server is ready', async (t, openPage) => {
  // the clock stands still in the middle of a minute, because the page shows the current minute differently
  const halfMinute = Math.floor(Date.now() / 60_000) * 60_000 + 30_000
  const { url, key, project } = await startConsole(t, { now: () => halfMinute })
  await send(project, 60, 3)
  await project.submitBatch({
    events: [
      { projectId, eventId: 'e-0' },
      { projectId, eventId: 'other', buildId: 'b-2' },
    ],
  })
  const { page } = await openPage({ url, key, now: halfMinute })
  await waitForText(page, 'A batch sent now would be stored.')
  await waitForEvents(page, 61)
  t.match(await figure(page, 'Events per second'), /^[\d.]+ over the last minute$/)
  t.match(await figure(page, 'Last event'), /^\d\d:\d\d:\d\d \d+ s ago$/)
  await page.waitForSelector('.outcome')
  t.equal(await page.$eval('.outcome.duplicates strong', (element) => element.textContent), '1')
  t.match(await page.$eval('.outcome.rejected a', (link) => link.getAttribute('href')), /rejected$/)
  t.match(
    await page.$eval('.outcome.rejected .chart', (chart) => chart.ariaLabel),
    /Rejected per minute: most at \d\d:\d\d, 3\./,
  )
  for (const [outcome, count] of Object.entries({ duplicates: 1, rejected: 3 })) {
    const bars = await page.$$eval(`.${outcome} .bars > span`, (bars) =>
      bars.map((bar) => ({ title: bar.title, share: bar.style.getPropertyValue('--share') })),
    )
    t.ok([60, 61].includes(bars.length), 'an hour, and the minute that begins it')
    const tallest = bars.filter(({ share }) => share === '100%').map(({ title }) => title.replace(/^\d\d:\d\d · /, ''))
    t.strictSame(tallest, [`${count}`], 'only the bar of the current minute is drawn')
  }
  t.match(
    await page.$eval('.accepted .estimate', (bar) => (bar as HTMLElement).title),
    /61 so far, [\d.]+ per second now$/,
  )
  t.equal((await page.$$('.accepted .bars > i')).length, 2, 'both builds are new')

  t.match(await rowsOf(page, '#by-type'), [/^round\.start *60/, /^Without a type.*1/])
  t.match(
    await page.$eval('[aria-labelledby=by-type] a', (link) => link.getAttribute('href')),
    /live\?type=round\.start$/,
  )
  t.match((await rowsOf(page, '#by-build')).toSorted(), [/^2026\.11\.20 *60 *3 4\.8 %/, /^b-2 *1 *0/])
  await page.locator('::-p-aria(Compare 2026.11.20[role="checkbox"])').click()
  await page.locator('::-p-aria(Compare b-2[role="checkbox"])').click()
  await page.waitForFunction(() => document.querySelectorAll('.comparison li').length === 1)
  t.match(await page.$$eval('.comparison section', (all) => all.map(({ textContent }) => textContent)), [
    /^2026\.11\.20Accepted60Rejected3 4\.8 %3 invalid_type \/type$/,
    /^b-2Accepted1Rejected0 0 %$/,
  ])
  await page.setViewport({ width: 1280, height: 1400 })
  await checkAccessibility(page, 'now')
  await page.setViewport({ width: 380, height: 800 })
  await page.waitForFunction(() => document.documentElement.scrollWidth === 380)
  await page.reload()
  await page.waitForFunction(() => document.querySelectorAll('.comparison li').length === 1)
  await send(project, 1)
  await waitForEvents(page, 62)
})

const rowsOf = (page: Page, heading: string) =>
  page.$$eval(`[aria-labelledby=${heading.slice(1)}] tbody tr`, (rows) =>
    rows.map((row) =>
      [...row.cells]
        .map(({ textContent }) => textContent)
        .join('')
        .trim(),
    ),
  )

browserTest('Now says that the project has no events, until the first one', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/now`, key })
  await waitForText(page, 'No event is stored in this project yet.')
  const command = await page.$eval('main .notice pre', ({ textContent }) => textContent)
  t.match(command, "-H 'X-Project-Id: game-1'")
  t.equal(await page.$('.figures'), null)
  await checkAccessibility(page)
  await send(project, 1)
  await waitForEvents(page, 1)
})

browserTest('Now says once why the server is not ready', async (t, openPage) => {
  const { url, key, project, ingest } = await startConsole(t)
  await send(project, 1)
  const { page } = await openPage({ url, key, colorScheme: 'dark', allow: [/status of 503/] })
  await waitForEvents(page, 1)
  await ingest.close()
  await waitForText(page, 'Not ready: Store closed')
  await waitForText(page, 'start it again')
  await waitForText(page, 'unknown')
  t.equal((await page.$$('[role=alert]')).length, 1)
  t.equal(await figure(page, 'Events stored'), '1', 'loaded data stays')
  await checkAccessibility(page)
})

/** Longer than the test. */
const retryAfter = { 'Retry-After': '3600' }

for (const [name, failure] of [
  ['not ready', refusal(503, 'disk-full', retryAfter)],
  ['gone', { status: 502, headers: retryAfter }],
] as const) {
  browserTest(`everything is requested again as soon as a server that was ${name} is back`, async (t, openPage) => {
    const { url, key, project } = await startConsole(t)
    await send(project, 1)
    const failing = new Set<string>()
    const proxy = await startProxy(t, url, (path) => (failing.has(path) ? failure : undefined))
    const { page } = await openPage({ url: proxy, key, allow: [/status of 50[23]/] })
    await waitForEvents(page, 1)
    for (const path of ['/readyz', '/v1/stats']) failing.add(path)
    await page.waitForResponse((response) => response.url().endsWith('/v1/stats') && response.status() >= 500)
    await page.waitForFunction(() => !document.querySelector('.ready'))
    await send(project, 1)
    failing.clear()
    await waitForEvents(page, 2)
  })
}

const exact = '{"projectId":"game-1", "eventId":"spaced","type":7,"x":1.50}'

const batchOf = (...events: object[]) =>
  Buffer.from(JSON.stringify({ events: events.map((event) => ({ projectId, ...event })) }))

browserTest('Rejected shows the senders, the time and samples of each cause', async (t, openPage) => {
  const { url, key, project, ingest } = await startConsole(t, { rejected: { keepEvents: true } })
  const { record } = await ingest.keys.create(projectId, { name: 'Live servers' })
  await project.submitBatch(
    batchOf(
      { eventId: 'a', playerId: { id: 1 } },
      { eventId: 'b', playerId: [], buildId: 'b-1', serverId: 'jfk-1' },
      { eventId: 'b2', playerId: true },
      { eventId: 'b3', playerId: true },
      { eventId: 'c', type: 5, playerId: true },
      { type: 'round.start' },
      { eventId: 'ok' },
    ),
    { keyId: record.keyId },
  )
  await project.submitBatch(Buffer.from(`{"events":[${exact}]}`))
  const { page } = await openPage({ url: `${url}#/rejected`, key })
  await page.waitForSelector('.causes > li')
  const texts = (selector: string) => page.$$eval(selector, (all) => all.map(({ textContent }) => textContent ?? ''))
  const waitForCauses = (count: number) =>
    page.waitForFunction((count) => document.querySelectorAll('.causes > li').length === count, {}, count)

  t.match(await texts('.causes summary'), [
    /^4invalid_type \/playerId.*Buildno valid build 75 %b-1 25 %Typeno valid type 100 %KeyLive servers \(\w{8}\) 100 %/,
    /^2invalid_type \/type/,
    /^1required \/eventId/,
  ])
  t.match(await texts('.causes summary'), [/Game serverno valid serverId 75 %jfk-1 25 %since \d\d:\d\d:\d\dlast \d\d/])
  await checkAccessibility(page, 'rejected')

  // with the keyboard
  await page.focus('.causes > li:nth-child(2) summary')
  await page.keyboard.press('Enter')
  await page.waitForSelector('.samples')
  t.match(await page.evaluate(() => location.hash), /rejected\?code=invalid_type&path=%2Ftype$/)
  await page.locator('::-p-aria(Show the event)').click()
  await page.waitForSelector('.samples [aria-label="Exact bytes"]')
  t.same(await texts('.samples [aria-label="Exact bytes"] pre'), [exact])
  t.match(await texts('.samples section[aria-label="Formatted text"] pre'), [
    /^\{\n {2}"projectId": "game-1",[\s\S]*"x": 1.50\n\}$/,
  ])
  await checkAccessibility(page, 'rejected-open')
  await page.setViewport({ width: 380, height: 800 })
  await page.waitForFunction(() => document.documentElement.scrollWidth === 380)
  await page.setViewport({ width: 1280, height: 800 })

  // it stays open while others arrive
  await project.submitBatch(batchOf({ eventId: 'd', type: {} }))
  await page.waitForFunction(() => document.querySelector('.causes [open] .number')?.textContent === '3')
  t.equal((await page.$$('.samples [aria-label="Exact bytes"]')).length, 1)

  await page.locator('.causes > li:nth-child(1) summary').click()
  await page.locator('.causes tbody tr:nth-child(2) a').click()
  await waitForCauses(1)
  t.match(await texts('.causes summary'), [/^1invalid_type \/playerId/])
  await page.locator('[title="Remove this filter"]').click()
  await waitForCauses(3)
  await page.locator('.causes > li:nth-child(1) tbody a ::-p-text(no valid build)').click()
  await waitForText(page, 'no valid build ✕')
  await page.waitForFunction(() => document.querySelector('.causes summary .number')?.textContent === '3')
  t.match(await page.evaluate(() => location.hash), /[?&]build=(&|$)/)
  await page.locator('[title="Remove this filter"]').click()
  await page.waitForFunction(() => document.querySelector('.causes summary .number')?.textContent === '4')
  await page.goto(`${url}${(await page.evaluate(() => location.hash)).replace(/\?.*/, '')}?code=too_deep&path=`)
  await waitForText(page, 'No event was rejected for this cause')
  await page.locator('::-p-aria(Show all causes)').click()
  await page.waitForFunction(() => !document.body.textContent?.includes('No event was rejected for this cause'))
})

browserTest('Rejected says that nothing was rejected, until the first event', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/rejected`, key, colorScheme: 'dark' })
  await waitForText(page, 'Nothing was rejected in this time.')
  await checkAccessibility(page)
  await project.submitBatch(batchOf({ eventId: 'a', type: 5 }))
  await page.waitForSelector('.causes > li')
  await page.locator('.causes summary').click()
  await waitForText(page, '--keep-rejected')
})
