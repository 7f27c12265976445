import { createIngest, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, openBrowser, serverGone, tryNow, waitForText } from '../browser.ts'
import { type Lie, refusal, startProxy } from '../lying-proxy.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

const types = ['round.start', 'player.join', 'shot.fired', 'player.leave', 'item.bought', 'round.end']

/** A batch of events as a game sends them, with the ids `<prefix>0`, … */
function batch(prefix: string, count: number) {
  const events = Array.from({ length: count }, (_, index) => ({
    projectId,
    eventId: `${prefix}${index}`,
    type: types[index % types.length] as string,
    ...(index % 4 > 0 && { buildId: index % 4 > 1 ? '2026.11.21' : '2026.11.20' }),
    playerId: 1_000 + (index % 17),
    position: { x: index * 1.5, y: 0, z: -index },
  }))
  return { events }
}

const rowIds = (page: Page) => page.$$eval('[role=option] .id', (cells) => cells.map(({ textContent }) => textContent))

/** Waits until the newest row has the id. */
const waitForNewest = (page: Page, id: string) =>
  page.waitForFunction((id) => document.querySelector('[role=option] .id')?.textContent === id, {}, id)

/** Waits until the element has this text. */
const waitForContent = (page: Page, selector: string, text: string) =>
  page.waitForFunction((selector, text) => document.querySelector(selector)?.textContent === text, {}, selector, text)

/** The visible cells of the header or the newest row. */
const visibleCells = (page: Page, row: '.head' | '[role=option]') =>
  page.$$eval(`.event-row${row}:first-child > *`, (cells) =>
    cells.flatMap((cell) => (cell.checkVisibility() ? [cell.textContent] : [])),
  )

const fits = (page: Page, width: number) =>
  page.waitForFunction((width) => document.documentElement.scrollWidth <= width, {}, width)

browserTest('events appear as they are stored, newest first, and open with their exact bytes', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/live`, key })
  await waitForText(page, 'No event is stored in this project yet.')
  await checkAccessibility(page)
  for (const prefix of ['a-', 'b-', 'e-']) await project.submitBatch(batch(prefix, 100))
  await waitForNewest(page, 'e-99')
  const exact = String.raw`{ "projectId":"game-1","eventId":"exact","n":12345678901234567890.10,"s":"\u00e4<b>" }`
  await project.submitBatch(Buffer.from(`{"events":[${exact}]}`))
  await waitForNewest(page, 'exact')
  await waitForContent(page, '.state', 'Following')
  t.strictSame((await rowIds(page)).slice(0, 3), ['exact', 'e-99', 'e-98'])
  t.ok((await rowIds(page)).length < 60, 'only visible rows are rendered')
  await waitForText(page, '301 events since the first stored event.')
  await page.click('[role=option]')
  await page.waitForSelector('.opened-event')
  t.equal(await page.$eval('section[aria-label="Exact bytes"] pre', ({ textContent }) => textContent), exact)
  t.equal(
    await page.$eval('section[aria-label="Formatted text"] pre', ({ textContent }) => textContent),
    String.raw`{
  "projectId": "game-1",
  "eventId": "exact",
  "n": 12345678901234567890.10,
  "s": "\u00e4<b>"
}`,
  )
  await checkAccessibility(page, 'live-opened')
  await page.keyboard.press('ArrowDown')
  await waitForContent(page, '.opened-event h2', 'e-99')
  await page.keyboard.press('End')
  await waitForContent(page, '.opened-event h2', 'a-0')
  await page.waitForSelector('[role=option][aria-selected=true][aria-posinset="301"]')
  await page.setViewport({ width: 380, height: 800 })
  await checkAccessibility(page, 'live-380')
  await fits(page, 380)
})

browserTest(
  'the server filters; the filters are in the address, and a click on a member adds one',
  async (t, openPage) => {
    const { url, key, project } = await startConsole(t)
    await project.submitBatch(batch('e-', 60))
    const { page, requests } = await openPage({ url: `${url}#/live`, key, colorScheme: 'dark' })
    await waitForText(page, '60 events')
    await page.locator('.live-filters input').fill('shot.fired')
    await page.keyboard.press('Enter')
    await waitForText(page, '10 matching events')
    t.match(new URL(requests.at(-1)?.url() ?? '').searchParams.get('type'), 'shot.fired')
    t.equal(await page.evaluate(() => location.hash), `#/p/${projectId}/live?type=shot.fired`)
    await project.submitBatch(batch('f-', 4))
    await waitForNewest(page, 'f-2')
    t.ok(
      (await rowIds(page)).every((id) => Number(id?.slice(2)) % 6 === 2),
      'new events are filtered too',
    )

    await page.click('[role=option]')
    await page.waitForSelector('.event-members')
    t.strictSame(
      await page.$$eval('.event-members > div', (members) =>
        members
          .slice(0, 3)
          .map((member) => [member.textContent, member.querySelector('a')?.getAttribute('href') ?? null]),
      ),
      [
        ['typeshot.fired', null],
        ['build2026.11.21', `#/p/${projectId}/live?type=shot.fired&build=2026.11.21`],
        ['player1002', `#/p/${projectId}/live?type=shot.fired&player=1002`],
      ],
    )
    await checkAccessibility(page, 'live-filtered')
    await page.locator('.event-members div:nth-child(3) a').click()
    await waitForText(page, '2 matching events')
    t.strictSame(await rowIds(page), ['f-2', 'e-2'])
    const shownAt = page.url()
    await page.locator('input[type=search]').fill('"E-2"')
    await waitForText(page, '1 of 2 matching events')
    await page.locator('::-p-text(Remove all)').click()
    await waitForText(page, '1 of 64 events')
    t.equal(await page.evaluate(() => location.hash), `#/p/${projectId}/live?text=%22E-2%22`)
    const shared = await openPage({ url: shownAt, key })
    await waitForText(shared.page, '2 matching events')
  },
)

browserTest('earlier events are searched once, and the page says from when on it lists events', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'first', playerId: 7 }] })
  for (let i = 0; i < 3; i++) await project.submitBatch(batch(`a-${i}-`, 100))
  const { page } = await openPage({ url: `${url}#/live?player=7`, key })
  await waitForNewest(page, 'first')
  await waitForText(page, '1 matching event since the first stored event.')
  await project.submitBatch({ events: [{ projectId, eventId: 'last', playerId: '7' }] })
  await waitForNewest(page, 'last')
  const empty = await openPage({ url: `${url}#/live?player=8`, key })
  await waitForText(empty.page, '0 matching events since the first stored event.')
  await empty.page.waitForSelector('#suggestions option[value="shot.fired"]')
  await checkAccessibility(empty.page)
  await page.goto(`${url}#/live?player=${'x'.repeat(257)}`)
  await waitForText(page, '0 matching events')
})

browserTest('while an event is open, the list does not move; a link to it shows the same', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch(batch('a-', 3))
  const { page } = await openPage({ url: `${url}#/live`, key })
  await waitForNewest(page, 'a-2')
  await page.click('[role=option]:nth-child(2)')
  await waitForContent(page, '.opened-event h2', 'a-1')
  await waitForContent(page, '.state', 'Paused')
  await project.submitBatch(batch('b-', 5))
  await waitForText(page, 'Resume: 5 new')
  t.strictSame(await rowIds(page), ['a-2', 'a-1', 'a-0'])
  const listed = await page.$eval('.listed-line p', ({ textContent }) => textContent)
  t.match(
    listed,
    /^3 events from the first stored event to \S+\.$/,
    'the line does not include events that are not shown',
  )
  await checkAccessibility(page, 'live-paused')

  const linked = await openPage({ url: page.url(), key, colorScheme: 'dark' })
  await waitForContent(linked.page, '.opened-event h2', 'a-1')
  await linked.page.waitForSelector('[role=option][aria-selected=true][aria-posinset="2"]')
  t.strictSame(await rowIds(linked.page), ['a-2', 'a-1', 'a-0'])
  await checkAccessibility(linked.page)
  await linked.page.keyboard.press('Escape')
  await waitForNewest(linked.page, 'b-4')
  t.equal(await linked.page.$('.opened-event'), null)

  await page.locator('::-p-text(Resume: 5 new)').click()
  await waitForNewest(page, 'b-4')
  t.equal(await page.$('.opened-event'), null)
  t.equal(await page.evaluate(() => location.hash), `#/p/${projectId}/live`)
  const missing = await openPage({ url: `${url}#/live?event=unknown`, key })
  await waitForText(missing.page, 'No event with this id is stored.')
  await waitForNewest(missing.page, 'b-4')
})

browserTest(
  'a paused list does not move; after resuming, it shows the newest events, or says that it shows a sample',
  async (t, openPage) => {
    const { url, key, project } = await startConsole(t)
    await project.submitBatch(batch('a-', 1))
    const { page } = await openPage({ url: `${url}#/live`, key })
    await waitForNewest(page, 'a-0')
    await page.locator('::-p-aria(Pause)').click()
    await waitForContent(page, '.state', 'Paused')
    await project.submitBatch(batch('b-', 5))
    await waitForText(page, 'Resume: 5 new')
    t.strictSame(await rowIds(page), ['a-0'])
    for (let first = 0; first < 20; first++) await project.submitBatch(batch(`c-${first}-`, 100))
    await page.waitForFunction(() =>
      /^Resume: \d,\d+\+ new$/.test(document.querySelector('.stream-state button')?.textContent ?? ''),
    )
    await page.locator('.stream-state button').click()
    await waitForText(page, 'Following a sample')
    await waitForText(page, 'Events arrive too fast to show them all')
    await page.waitForFunction(() =>
      /^1,000 events since \S+\. Older .* Events may be missing at dashed lines\.$/.test(
        document.querySelector('.listed-line p')?.textContent ?? '',
      ),
    )
    t.ok((await rowIds(page)).length < 60)
    await checkAccessibility(page)
  },
)

browserTest('the list shows who did what before it shows ids', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const event = { projectId, eventId: 'e-1', type: 'shot', playerId: 7, buildId: 'b1', placeId: 'town', hits: 2 }
  await project.submitBatch({ events: [event] })
  const { page } = await openPage({ url: `${url}#/live`, key })
  await waitForNewest(page, 'e-1')
  const [, ...heads] = await visibleCells(page, '.head')
  t.strictSame(heads, ['Type', 'Player', 'Build', 'Place', 'Members', 'Event id'])
  const [, ...cells] = await visibleCells(page, '[role=option]')
  t.strictSame(cells, ['shot', '7', 'b1', 'town', 'hits: 2', 'e-1'])
  const isInRow = await page.$eval('[role=option]', (row) => {
    const { top, bottom } = row.getBoundingClientRect()
    const boxes = [...row.children].map((cell) => cell.getBoundingClientRect())
    return boxes.every((box) => box.top >= top && box.bottom <= bottom)
  })
  t.ok(isInRow)
  await page.setViewport({ width: 380, height: 800 })
  t.strictSame((await visibleCells(page, '.head')).slice(1), ['Type', 'Player'])
})

browserTest('the rate or the time of the last event is shown once it is known', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch(batch('a-', 1))
  const { page } = await openPage({ url: `${url}#/find`, key })
  // the clock of the page stands still
  await page.evaluate(() => {
    const at = Date.now()
    Date.now = () => at + Number(document.body.dataset.laterMs ?? 0)
  })
  await page.locator('nav ::-p-text(Live events)').click()
  await waitForNewest(page, 'a-0')
  await project.submitBatch(batch('b-', 50))
  await waitForNewest(page, 'b-49')
  t.equal(await page.$eval('.stream-state .line', ({ textContent }) => textContent), 'PauseFollowing')
  await page.evaluate(() => Object.assign(document.body.dataset, { laterMs: 10_000 }))
  await waitForText(page, 'No event since')
  await project.submitBatch(batch('c-', 50))
  await waitForText(page, '5 events per second')
  await page.evaluate(() => Object.assign(location, { hash: `${location.hash}?type=round.end` }))
  await waitForText(page, '16 matching events')
  await page.evaluate(() => Object.assign(document.body.dataset, { laterMs: 20_000 }))
  await waitForText(page, 'No matching event since')
})

browserTest('long and many names fit a phone', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const long = 'x'.repeat(256)
  const events = Array.from({ length: 314 }, (_, i) => ({ projectId, eventId: `e-${i}`, type: `type-${i}` }))
  for (let i = 0; i < 314; i += 100) await project.submitBatch({ events: events.slice(i, i + 100) })
  const [type, id] = [long.slice(56), long.slice(128)]
  const named = { type, buildId: id, placeId: id, playerId: long, sessionId: long, serverId: long }
  await project.submitBatch({ events: [{ projectId, eventId: long, ...named }] })
  const query = new URLSearchParams({ type, player: long, session: long })
  let lie: Lie | undefined
  const proxy = await startProxy(t, url, (path) => (path === '/v1/events' ? lie : undefined))
  const allow = [/status of 400/]
  const { page } = await openPage({ url: `${proxy}#/live?${query}`, key, width: 320, allow })
  await waitForNewest(page, long)
  await page.click('[role=option]')
  await page.waitForSelector('.event-members')
  await fits(page, 320)
  await checkAccessibility(page, 'live-long-320')
  await page.keyboard.press('Escape')
  await page.locator('::-p-text(Remove all)').click()
  await waitForText(page, '315 events')
  await fits(page, 320)
  lie = refusal(400, 'invalid-query', { title: long })
  for (const view of ['live?type=x', 'playback?player=7&range=1h']) {
    await page.goto(`${proxy}#/${view}`)
    await waitForText(page, long)
    await fits(page, 320)
  }
})

browserTest('a row that is scrolled to stays in place while events come in', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch(batch('a-', 99))
  const { page } = await openPage({ url: `${url}#/live`, key })
  await waitForNewest(page, 'a-98')
  const topOf = (id: string) =>
    page.evaluate((id) => {
      const cells = [...document.querySelectorAll('[role=option] .id')]
      return cells.find(({ textContent }) => textContent === id)?.getBoundingClientRect().top
    }, id)
  await page.$eval('[role=listbox]', (list) => list.scrollTo({ top: 320 }))
  await waitForText(page, '↑ Newest')
  const top = await topOf('a-80')
  t.ok(top)
  await project.submitBatch(batch('b-', 50))
  await waitForText(page, '149 events')
  t.equal(await topOf('a-80'), top)
  await page.locator('.newer').click()
  await waitForNewest(page, 'b-49')
})

browserTest(
  'when the server is back, the list continues where it was, or with the newest events of a restored store',
  async (t, openPage) => {
    const { url, key, project, server, start } = await startConsole(t)
    await project.submitBatch(batch('a-', 3))
    const { page } = await openPage({ url: `${url}#/live`, key, allow: [...serverGone, /status of 400/] })
    await waitForNewest(page, 'a-2')
    await server.close()
    await waitForText(page, 'The server has not responded since')
    await checkAccessibility(page)
    await project.submitBatch(batch('b-', 2))
    const port = Number(new URL(url).port)
    const again = await start({ port })
    await tryNow(page)
    await waitForNewest(page, 'b-1')
    t.strictSame(await rowIds(page), ['b-1', 'b-0', 'a-2', 'a-1', 'a-0'])

    await again.close()
    const restored = createIngest({ store: openMemoryStore(), authenticate: async () => true })
    t.teardown(() => restored.close())
    await restored.project(projectId).submitBatch(batch('c-', 3))
    await waitForText(page, 'The server has not responded since')
    const next = await serve({ ingest: restored, port, closeTimeoutMs: 1 })
    t.teardown(() => next.close())
    await tryNow(page)
    await waitForText(page, 'The server refused the cursor')
    await checkAccessibility(page)
    await restored.project(projectId).submitBatch(batch('d-', 1))
    await waitForNewest(page, 'd-0')
    t.strictSame((await rowIds(page)).slice(0, 5), ['d-0', 'c-2', 'c-1', 'c-0', 'b-1'])
    t.equal(await page.$eval('.after-gap .id', ({ textContent }) => textContent), 'c-0')
  },
)
