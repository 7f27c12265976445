import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, openBrowser, signOut, waitForText } from '../browser.ts'
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
  t.equal(await page.$eval('.outcome.rejected a', (link) => link.getAttribute('href')), `#/p/${projectId}/rejected`)
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
  t.equal(await page.$eval('main .notice a', (link) => link.getAttribute('href')), `#/p/${projectId}/try`)
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

/** Not as `JSON.stringify` would write it. */
const exact = '{"projectId":"game-1", "eventId":"spaced","type":7,"x":1.50}'

const batchOf = (...events: object[]) =>
  Buffer.from(JSON.stringify({ events: events.map((event) => ({ projectId, ...event })) }))

const groups = '.rejections > li'

browserTest('rejected events by cause, with what was sent', async (t, openPage) => {
  const { url, key, project } = await startConsole(t, { rejected: { keepEvents: true } })
  await project.submitBatch(
    batchOf(
      { eventId: 'a', playerId: { id: 1 } },
      { eventId: 'b', playerId: [] },
      { eventId: 'c', buildId: 'b1', playerId: true },
      { type: 'round.start' },
      { eventId: 'ok' },
    ),
  )
  await project.submitBatch(Buffer.from(`{"events":[${exact}]}`))
  const { page } = await openPage({ url: `${url}#/rejected`, key })
  await page.waitForSelector(groups)
  const texts = (selector: string) => page.$$eval(selector, (all) => all.map(({ textContent }) => textContent ?? ''))

  t.match(await texts(`${groups} summary`), [
    /^2invalid_type \/playerId/,
    /^1invalid_type \/playerId.*build b1/,
    /^1required \/eventId.*type round.start/,
    /^1invalid_type \/type/,
  ])
  await checkAccessibility(page, 'rejected')

  // with the keyboard
  await page.focus(`${groups}:nth-child(4) summary`)
  await page.keyboard.press('Enter')
  await page.waitForSelector('.rejection')
  t.same(await texts('.rejection [aria-label="Exact bytes"] pre'), [exact])
  t.match(await texts('.rejection .json'), [/^\{\n {2}"projectId": "game-1",[\s\S]*"x": 1.50\n\}$/])
  await checkAccessibility(page, 'rejected-open')

  // an open group stays open while others arrive
  await project.submitBatch(batchOf({ eventId: 'd', placeId: {} }))
  await page.waitForSelector(`${groups}:nth-child(5)`)
  t.equal((await page.$$(`${groups} details[open]`)).length, 1)
  await page.setViewport({ width: 380, height: 800 })
  await page.waitForFunction(() => document.documentElement.scrollWidth === 380)
  await page.locator('.rejection a').click()
  await page.waitForFunction(() => location.hash.endsWith('/find?id=spaced'))
})

browserTest('nothing rejected is good news', async (_t, openPage) => {
  const { url, key, project } = await startConsole(_t)
  const { page } = await openPage({ url: `${url}#/rejected`, key, colorScheme: 'dark' })
  await waitForText(page, 'Nothing was rejected since')
  await checkAccessibility(page)
  await project.submitBatch(batchOf({ eventId: 'a', type: 5 }))
  await page.waitForSelector(groups)
  await waitForText(page, '--keep-rejected')
})

browserTest('an event is found by its id, and its address can be shared', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const event = `{"projectId":"${projectId}","eventId":"a/b?c=d&é","n":1.50,"position":{"x":12.5,"z":-3}}`
  await project.submitBatch(Buffer.from(`{"events":[${event}]}`))
  const { page } = await openPage({ url: `${url}#/find`, key, colorScheme: 'dark' })
  await waitForText(page, 'Type the id of an event')
  await checkAccessibility(page)
  await page.locator('input[name=id]').fill('a/b?c=d&é')
  await page.keyboard.press('Enter')
  await waitForText(page, 'Stored')
  t.equal(await page.$eval('section[aria-label="Exact bytes"] pre', ({ textContent }) => textContent), event)
  await checkAccessibility(page, 'find')
  const shared = await openPage({ url: page.url(), key })
  await waitForText(shared.page, 'Stored')
  t.notOk(page.url().includes(key))
})

browserTest('erased, unknown and invalid ids are told apart', async (t, openPage) => {
  const { url, key, project, ingest } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-1', playerId: 7 }] })
  await ingest.eraseEvents(projectId, { path: '/playerId', value: 7 })
  const { page } = await openPage({ url: `${url}#/find?id=e-1`, key, allow: [/status of 400/] })
  await waitForText(page, 'Erased')
  t.equal(await page.$('pre'), null)
  await checkAccessibility(page, 'find-erased')
  await page.locator('input[name=id]').fill('e-2 ')
  await page.locator('::-p-aria(Find[role="button"])').click()
  await waitForText(page, 'Not stored')
  await waitForText(page, 'begins or ends with a space')
  await checkAccessibility(page)
  await page.locator('input[name=id]').fill('x'.repeat(300))
  await page.locator('::-p-aria(Find[role="button"])').click()
  await waitForText(page, '256')
  await checkAccessibility(page)
})

browserTest('a batch is sent, and the response is explained by event', async (t, openPage) => {
  const { url, key, newKey, project } = await startConsole(t)
  const writeKey = await newKey('events:write')
  const { page, requests } = await openPage({ url: `${url}#/try`, key })
  await waitForText(page, 'The response appears here.')
  await page.locator('input[name=write-key]').fill(writeKey)
  await page.locator('::-p-aria(Send[role="button"])').click()
  await waitForText(page, '2 events accepted')
  t.equal((await project.getStats()).events, 2)
  t.match(requests.at(-1)?.headers(), { 'x-ingestion-key': writeKey })
  const body = await page.$eval('.json', ({ textContent }) => textContent ?? '')
  t.strictSame(JSON.parse(body), { accepted: 2, duplicates: 0, rejected: [] })
  await checkAccessibility(page)
  await page.locator('textarea').fill('{"events":[5]}')
  await page.locator('::-p-aria(Send[role="button"])').click()
  await waitForText(page, 'Expected an object')
  t.ok(await page.$('.status.refused'), 'a 202 that stores nothing is not green')
  const mixed = {
    events: [
      { projectId, eventId: "it's" },
      { projectId, eventId: 'e-1', buildId: 7 },
    ],
  }
  await page.locator('textarea').fill(JSON.stringify(mixed, null, 2))
  await page.locator('::-p-aria(Send[role="button"])').click()
  await waitForText(page, '1 event rejected')
  await waitForText(page, '/buildId')
  const command = await page.$eval(
    'section[aria-label="The same with curl"] pre',
    ({ textContent }) => textContent ?? '',
  )
  t.match(command, '$INGEST_KEY')
  t.match(command, String.raw`it'\''s`)
  t.notOk(command.includes(writeKey))
  await checkAccessibility(page, 'try')
  t.ok(await page.$('.status.accepted'))
  await page.setViewport({ width: 380, height: 800 })
  t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 380), 'the page fits a phone')
  await page.locator("::-p-text(it's)").click()
  await page.locator('td a').click()
  await waitForText(page, 'Stored')
})

browserTest('a body or a key that is refused is explained, and does not sign out', async (t, openPage) => {
  const { url, key, newKey } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/try`, key, colorScheme: 'dark', allow: [/status of 40[01]/] })
  const send = () => page.locator('::-p-aria(Send[role="button"])').click()
  await page.locator('textarea').fill('{"events":[}')
  await waitForText(page, 'Not JSON')
  await checkAccessibility(page)
  await page.locator('input[name=write-key]').fill(await newKey('events:write'))
  await send()
  await waitForText(page, 'malformed-body')
  await waitForText(page, 'Nothing was stored')
  await checkAccessibility(page, 'try-malformed')
  await page.locator('input[name=write-key]').fill(key)
  await send()
  await waitForText(page, 'lacks the scope events:write')
  await checkAccessibility(page)
  await page.reload()
  await page.waitForFunction((key) => document.querySelector('input')?.value === key, {}, key)
  await signOut(page)
  await page.waitForSelector('input[name=project]')
  t.strictSame(await page.evaluate(() => ({ ...sessionStorage })), {}, 'signed out, both keys are forgotten')
})
