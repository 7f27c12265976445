import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, chooseBuild, openBrowser, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

const minute = 60_000
const hour = 60 * minute

let count = 0
const event = (members: object) => ({ projectId, eventId: `e-${count++}`, ...members })
const listOf = (length: number, members: object) => Array.from({ length }, () => event(members))

/**
 * A day and two hours of a game: `chat` stops two hours ago; build b-2 begins twenty minutes ago, without a map, and a
 * third of its events is rejected; `warehouse` has read nothing but the first event. Every shot is at one of two spots.
 * Player p-7 shoots every ten minutes and a quarter of a second, ten times.
 */
async function startHistory(t: Parameters<typeof startConsole>[0]) {
  const end = Date.now()
  const clock = { at: end - 26 * hour }
  const served = await startConsole(t, {
    now: () => clock.at,
    rateLimits: { readBytes: { perSecond: 1e9, burst: 1e9 } },
  })
  const { project } = served
  const send = async (at: number, ...events: object[]) => {
    clock.at = at
    await project.submitBatch(Buffer.from(JSON.stringify({ events })))
  }
  await project.publishMap({ placeId: 'arena', buildId: 'b-1', map: { parts: [] } })
  const shot = { type: 'shot', buildId: 'b-1', placeId: 'arena', position: { x: 2.5, y: 0, z: 2.5 } }
  const farAway = { position: { x: 98.5, y: 0, z: 58.5 } }
  await send(end - 26 * hour, event(shot))
  await send(end - 24.5 * hour, ...listOf(40, { ...shot, ...farAway }))
  for await (const { cursor } of project.readEvents({ limit: 1 })) {
    await project.putConsumer('warehouse', { cursor, replaces: null })
  }
  for (let at = end - 12 * hour; at < end - 2 * hour; at += 10 * minute) {
    await send(at, event(shot), event({ type: 'chat', buildId: 'b-1' }))
  }
  for (let i = 0; i < 10; i++) {
    const at = end - 115 * minute + i * 10 * minute
    await send(at, event({ ...shot, playerId: 'p-7', sessionId: 's-7', timestamp: at + i * 250 }))
  }
  const shotOfNewest = { ...shot, ...farAway, buildId: 'b-2' }
  const again = listOf(30, shotOfNewest)
  await send(end - 20 * minute, ...again, ...listOf(25, { ...shotOfNewest, playerId: {}, serverId: 'jfk-1' }))
  await send(end - 20 * minute, ...again.slice(0, 7))
  await send(end - 10 * minute, event(shot))
  clock.at = end
  return served
}

const texts = (page: Page, selector: string) =>
  page.$$eval(selector, (all) => all.map(({ textContent }) => (textContent ?? '').trim()))

/** The number at the start of each text. */
const numbers = async (page: Page, selector: string) =>
  (await texts(page, selector)).map((text) => Number(/^[\d,]+/.exec(text)?.[0].replaceAll(',', '')))

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

/** The column of accepted or rejected events of a table. */
const column = (page: Page, heading: 'by-type' | 'by-build', index: number) =>
  numbers(page, `[aria-labelledby=${heading}] tbody td.number:nth-child(${index})`)

browserTest('all figures of a known history agree with each other and with the statistics', async (t, openPage) => {
  const { url, key, project } = await startHistory(t)
  const stats = await project.getStats()
  t.equal(stats.events, 1 + 40 + 120 + 10 + 30 + 1)
  const { page } = await openPage({ url: `${url}#/now`, key })
  await page.waitForSelector('.attention')
  await page.waitForSelector('[aria-labelledby=by-type] tbody')
  await waitForText(page, 'a day before')

  t.match(await texts(page, '.attention li'), [
    /^chat has stopped arriving: none since .*\d\d:\d\d\.$/,
    /^b-2 has 45 % of its events rejected, 0 % before it\.$/,
    /^b-2 sends events and has no map\.$/,
    /^warehouse is a consumer that has not read for 1 d: 201 behind\.$/,
  ])
  t.match(await page.$$eval('.attention a', (links) => links.map((link) => link.getAttribute('href'))), [
    /live\?type=chat$/,
    /rejected\?range=24h&build=b-2$/,
    /maps\/b-2$/,
  ])
  t.match(await texts(page, '.outcome h3'), [
    /^Accepted *35 *40 a day before/,
    /^Duplicates *7 *0 a day before/,
    /^Rejected *25 *0 a day before *37 %/,
  ])
  t.match(await texts(page, '[aria-labelledby=by-type] td:nth-child(2)'), [/^35 40 a day before$/])
  t.match(await texts(page, '[aria-labelledby=by-build] td:nth-child(2)'), [
    /^30 0 a day before$/,
    /^5 40 a day before$/,
  ])
  t.match(await texts(page, '.figures dd'), [/\d/, /^0 over the last minute, 0 a day before$/, /^202$/])
  await checkAccessibility(page, 'now-attention')

  for (const [range, accepted] of [
    ['1h', 35],
    ['24h', 161],
    ['7d', stats.events],
  ] as const) {
    await page.goto(`${url}#/now?range=${range}`)
    await page.waitForFunction(
      (accepted) => document.querySelector('.outcome.accepted strong')?.textContent === `${accepted}`,
      {},
      accepted,
    )
    const sums = () => Promise.all([column(page, 'by-type', 2), column(page, 'by-build', 2)])
    await page.waitForFunction(
      (accepted) => document.querySelector('[aria-labelledby=by-type] tbody')?.textContent?.includes(`${accepted}`),
      {},
      accepted - (range === '1h' ? 0 : 60),
    )
    t.strictSame((await sums()).map(sum), [accepted, accepted], `${range}: by type and by build`)
    t.strictSame(
      (await Promise.all([column(page, 'by-type', 3), column(page, 'by-build', 3)])).map(sum),
      [25, 25],
      `${range}: rejected by type and by build`,
    )
    // within a week, `chat` began half a day after the project
    if (range !== '7d') t.notOk((await texts(page, '.trend')).includes('new'), 'nothing began later than the project')
    await page.goto(`${url}#/rejected?range=${range}`)
    await page.waitForSelector('.causes > li')
    t.match(await texts(page, '.outcome.rejected h2'), [/^25\b/])
    t.equal(sum(await numbers(page, '.causes summary .number')), 25)
  }
  // within this range, the first event of b-1 is after that of b-2
  await page.goto(`${url}#/now?from=${new Date(Date.now() - 22 * minute).toISOString()}&to=${new Date().toISOString()}`)
  await page.waitForFunction(() => document.querySelectorAll('[aria-labelledby=by-build] tbody tr').length === 2)
  await page.waitForFunction(() => document.querySelector('.outcome.accepted strong')?.textContent === '31')
  t.match(await texts(page, '[aria-labelledby=by-build] td.name'), [/^b-2/, /^b-1/])
  await page.goto(`${url}#/live?type=chat`)
  await waitForText(page, '60 matching events since the first stored event.')
  await page.goto(`${url}#/maps`)
  await page.waitForSelector('main tbody tr:nth-child(2)')
  t.match(await texts(page, 'main tbody tr'), [/^b-2/, /^b-1/])
})

/** Waits until the description of the heat map contains this text. */
const waitForCounted = (page: Page, text: string) =>
  page.waitForFunction((text) => document.querySelector('canvas')?.ariaLabel?.includes(text), {}, text)

browserTest('Where counts the sent events of a build, a place and each cell', async (t, openPage) => {
  const { url, key, project } = await startHistory(t)
  const { page } = await openPage({ url: `${url}#/where?build=b-1&range=7d`, key })
  await waitForText(page, 'All 172 events of the range.')
  t.equal(172 + 30, (await project.getStats()).events)
  await waitForCounted(page, '112 of 172 events have both /position/x and /position/z. All of them are in view, in 2 ')
  const sentence = () => page.$eval('canvas', ({ ariaLabel }) => ariaLabel)
  t.match(await sentence(), /in 2 cells of 1 × 1 units; the densest has 72\.$/)
  t.match(await texts(page, 'select[name=place] option'), ['All places', 'arena (112 events)'])
  t.match(await texts(page, '.types button'), ['All types', 'shot 112', 'chat 60'])
  t.match(await texts(page, '.heat-ticks li'), ['1', '10', '72'])
  t.match(await texts(page, '.densest tbody td'), [
    /^72$/,
    '2 to 3',
    '2 to 3',
    'Show',
    /^40$/,
    '98 to 99',
    '58 to 59',
    'Show',
  ])
  await page.locator('.densest button').click()
  await page.waitForSelector('.cell-list')
  t.match(await texts(page, '.heat-readout'), [/^72 events at x 2 to 3, z 2 to 3$/])
  t.match(await texts(page, '[aria-labelledby=cell-events] p'), ['72 events.'])
  t.equal((await page.$$('.cell-list > li')).length, 72)
  await page.locator('.types button:nth-of-type(3)').click()
  await waitForCounted(page, '0 of 60 events have both /position/x and /position/z.')

  // the events of both builds are those that were accepted
  for (const [range, ofBuilds, accepted] of [
    ['1h', [5, 30], 35],
    ['24h', [131, 30], 161],
  ] as const) {
    t.equal(sum(ofBuilds), accepted)
    for (const [i, build] of ['b-1', 'b-2'].entries()) {
      await page.goto(`${url}#/where?build=${build}&range=${range}`)
      await waitForText(page, `All ${ofBuilds[i]} events of the range.`)
    }
  }

  await page.goto(`${url}#/where?build=b-1&range=7d`)
  await waitForText(page, 'All 172 events of the range.')
  await chooseBuild(page, 'Beside it', 'b-2')
  await waitForText(page, 'Both pictures show 30 events, in the same area and colours.')
  t.match(await texts(page, '.reading p'), [
    /^b-1: All 172 events of the range\./,
    /^b-2: All 30 events of the range\./,
  ])
  const [ofFirst, ofSecond] = await Promise.all([1, 2].map((i) => numbers(page, `.densest tbody td:nth-child(${i})`)))
  t.equal(sum(ofFirst ?? []), 30)
  t.strictSame(ofSecond?.toSorted(), [0, 30])
  await page.locator('.densest button').click()
  await page.waitForSelector('[aria-labelledby=cell-events] p:nth-of-type(2)')
  t.match(await texts(page, '[aria-labelledby=cell-events] p'), [
    new RegExp(`^b-1: ${ofFirst?.[0]} sampled events?\\.$`),
    new RegExp(`^b-2: ${ofSecond?.[0]} sampled events?\\.$|^b-2: No events`),
  ])
})

browserTest('Playback shows the sent events, their span and their pauses', async (t, openPage) => {
  const { url, key } = await startHistory(t)
  const { page } = await openPage({ url: `${url}#/playback?player=p-7&range=6h`, key })
  await waitForText(page, '10 events, played by timestamp.')
  await waitForText(page, 'Path of player p-7, place arena, build b-1: 10 of 10 events.')
  const times = () => texts(page, '[role=option] .time')
  t.strictSame((await times()).slice(0, 2), ['0:00.000', '10:00.250 +10:00.250'])
  t.strictSame((await times()).at(-1), '1:30:02.250 +10:00.250', 'the whole span')
  await page.goto(`${url}#/playback?session=s-7`)
  await waitForText(page, '7 events, played by timestamp.')
  t.strictSame((await times()).at(-1), '1:00:01.500 +10:00.250', 'the hour before the last event')
})

browserTest('the six questions of a studio are answered from Now with two clicks at most', async (t, openPage) => {
  const { url, key } = await startHistory(t)
  const { page } = await openPage({ url: `${url}#/now`, key })
  let clicks = 0
  const click = async (selector: string) => {
    clicks++
    await page.locator(selector).click()
  }
  async function answer(question: string, clicksMax: number, find: () => Promise<void>): Promise<void> {
    await page.goto(`${url}#/now`)
    await page.waitForFunction(() => location.hash.endsWith('/now') && document.querySelector('.attention li'))
    clicks = 0
    const start = performance.now()
    await find()
    t.equal(clicks, clicksMax, question)
    t.comment(`${question} ${clicks} clicks, ${((performance.now() - start) / 1000).toFixed(1)} s`)
  }
  await answer('Is the newest build broken?', 0, () => waitForText(page, '45 % of its events rejected'))
  await answer('Who sends invalid events, since when?', 1, async () => {
    await click('.attention a[href*=rejected]')
    await page.waitForSelector('.causes summary')
    const from = await page.$eval('.causes time', (time) => Date.parse(time.dateTime))
    t.ok(Math.abs(Date.now() - 20 * minute - from) < 5 * minute, 'twenty minutes ago')
    t.match(await texts(page, '.causes summary'), [/^25.*Buildb-2 100 %.*Typeshot 100 %.*Game serverjfk-1 100 %since/])
  })
  await answer('What does this player do?', 2, async () => {
    await click('nav ::-p-text(Playback)')
    await page.locator('.live-filters input').fill('p-7')
    await click('.live-filters button')
    await waitForText(page, 'Path of player p-7, place arena, build b-1: 7 of 7 events.')
  })
  await answer('Where does it happen?', 2, async () => {
    await click('nav ::-p-text(Where it happens)')
    await click('.types button ::-p-text(shot)')
    await waitForCounted(page, '112 of 112 events')
    t.match(await texts(page, '.densest tbody td'), ['72', '2 to 3', '2 to 3', 'Show', '40', '98 to 99', '58 to 59'])
  })
  await answer('Which builds have no map?', 0, () => waitForText(page, 'sends events and has no map'))
  await answer('Has anything stopped?', 0, () => waitForText(page, 'has stopped arriving: none since'))
})

for (const [view, outcome, range, title] of [
  ['now', 'accepted', '24h', '24 hours'],
  ['now', 'accepted', '1h', 'hour'],
  ['rejected', 'rejected', '24h', '24 hours'],
] as const) {
  browserTest(`${view}: dragging across a chart of ${range} zooms in, and a button zooms out`, async (t, openPage) => {
    const { url, key } = await startHistory(t)
    // an hour is the default
    const { page } = await openPage({ url: `${url}#/${view}${range === '1h' ? '' : `?range=${range}`}`, key })
    await page.waitForSelector(`.outcome.${outcome} .bars > span`)
    // retries: data that loads later moves the chart
    for (let isDragged = false; !isDragged; ) {
      const box = await page.$eval(`.outcome.${outcome} .bars`, (bars) => {
        const { left, top, width, height } = bars.getBoundingClientRect()
        return { left, top, width, height }
      })
      const y = box.top + box.height / 2
      await page.mouse.move(box.left + box.width / 2, y)
      await page.mouse.down()
      await page.mouse.move(box.left + 0.75 * box.width, y, { steps: 4 })
      isDragged = (await page.$('.bars > .dragged')) !== null
      if (!isDragged) await page.mouse.up()
    }
    t.ok((await page.$$('.bars > .dragged')).length > 10)
    await page.mouse.up()
    await page.waitForFunction(() => /range=.*&from=.*&to=|from=.*&to=.*&range=/.test(location.hash))
    const query = new URLSearchParams((await page.evaluate(() => location.hash)).split('?')[1])
    const length = Date.parse(query.get('to') ?? '') - Date.parse(query.get('from') ?? '')
    const wanted = range === '24h' ? 6 * hour : 15 * minute
    t.ok(Math.abs(length - wanted) <= 20 * minute, `${length / minute} minutes are a quarter of the range`)
    await page.locator(`::-p-text(Back to the last ${title})`).click()
    await page.waitForFunction((end) => location.hash.endsWith(end), {}, `${view}?range=${range}`)
    await page.goBack()
    await page.waitForFunction((view) => location.hash.includes(view) && !location.hash.includes('from='), {}, view)
  })
}
