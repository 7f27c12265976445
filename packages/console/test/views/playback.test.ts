import t from 'tap'
import type { Query } from '../../page/api/api.ts'
import { parseEventLine } from '../../page/api/event-lines.ts'
import { formatPause } from '../../page/views/playback/format-pause.ts'
import { boxOfPath, pathOf, pointAt } from '../../page/views/playback/path.ts'
import { createPlayReader, eventsMax } from '../../page/views/playback/play-reader.ts'
import { checkAccessibility, openBrowser, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'
import { town } from './town.ts'

const browserTest = openBrowser(t)
const { signal } = new AbortController()

/** Reads events from a list of lines, as a server does from its log. */
function openReader(lines: readonly { receivedAt: number; event: object }[], range: { from: number; to: number }) {
  const queries: Query[] = []
  const reader = createPlayReader(range, async (query) => {
    queries.push(query)
    const { from, to, after = '-1', limit } = query
    return lines
      .map((line, i) => parseEventLine(JSON.stringify({ cursor: `${i}`, ...line })))
      .filter(({ receivedAt, cursor }) => receivedAt >= Number(from) && receivedAt < Number(to) && +cursor > +after)
      .slice(0, Number(limit))
  })
  const read = async () => {
    while ((await reader.step(signal)) === 0);
    return reader
  }
  return { read, queries }
}

t.test('the events of a range are read in slices, and sorted by timestamp', async (t) => {
  const lines = [
    { receivedAt: 999, event: { eventId: 'before' } },
    { receivedAt: 1_000, event: { eventId: 'b', timestamp: 500 } },
    { receivedAt: 1_000, event: { eventId: 'a', timestamp: new Date(400).toISOString() } },
    { receivedAt: 1_900, event: { eventId: 'c', position: { x: 1, z: 2 } } },
    { receivedAt: 2_000, event: { eventId: 'after' } },
  ]
  const { read, queries } = openReader(lines, { from: 1_000, to: 2_000 })
  const reader = await read()
  const times = reader.events().map(({ eventId, at, timestamp }) => [eventId, at, timestamp])
  t.strictSame(times, [
    ['a', 400, 'used'],
    ['b', 500, 'used'],
    ['c', 1_900, 'missing'],
  ])
  t.equal(reader.share(), 1)
  t.notOk(reader.isCut())
  t.strictSame(
    [queries[0]?.from, queries.at(-1)?.to, new Set(queries.map(({ from }) => from)).size],
    [1_000, 2_000, 20],
  )
})

t.test('if a range has too many events, the first are read', async (t) => {
  const lines = Array.from({ length: eventsMax + 10 }, (_, i) => ({ receivedAt: i, event: { eventId: `e${i}` } }))
  const reader = await openReader(lines, { from: 0, to: 100_000 }).read()
  t.equal(reader.events().length, eventsMax)
  t.ok(reader.isCut())
  t.ok(reader.share() < 1)
})

t.test('an event whose timestamp is more than a day from its receipt is played at its receipt', async (t) => {
  const day = 86_400_000
  const receivedAt = Date.UTC(2026, 10, 20)
  const timestamps = [receivedAt - day, '9999-12-31T23:59:59Z', receivedAt / 1_000, receivedAt + day + 1, 'soon']
  const lines = timestamps.map((timestamp, i) => ({
    receivedAt: receivedAt + i,
    event: { eventId: `${i}`, timestamp },
  }))
  const reader = await openReader(lines, { from: receivedAt, to: receivedAt + 10 }).read()
  const times = reader.events().map(({ eventId, at, timestamp }) => [eventId, at - receivedAt, timestamp])
  t.strictSame(times, [
    ['0', -day, 'used'],
    ['1', 1, 'far'],
    ['2', 2, 'far'],
    ['4', 4, 'missing'],
    ['3', day + 1, 'used'],
  ])
})

t.test('a pause has its real length', (t) => {
  t.strictSame([0, 40, 59_960, 3_599_999, 7_140_000].map(formatPause), [
    '+0 s',
    '+0.04 s',
    '+59.96 s',
    '+59:59.999',
    '+1:59:00.000',
  ])
  t.end()
})

t.test('a path leads through the events with coordinates of one player and place, by session', async (t) => {
  const event = (at: number, sessionId: string, members: object) => ({
    receivedAt: at,
    event: { eventId: `e${at}`, sessionId, placeId: 'town', playerId: 7, ...members },
  })
  const lines = [
    event(0, 's1', { x: 0, z: 0 }),
    event(10, 's1', { x: 10, z: 20 }),
    event(20, 's1', {}),
    event(30, 's1', { x: 5, z: 5, placeId: 'lobby' }),
    event(35, 's1', { x: 6, z: 6, playerId: 8 }),
    ...[36, 37, 38].map((at) => event(at, 's1', { placeId: 'hall' })),
    event(40, 's2', { x: 100, z: 100 }),
  ]
  const reader = await openReader(lines, { from: 0, to: 50 }).read()
  const path = pathOf(reader.events(), reader.columns, { across: '/x', down: '/z', count: 5 })
  t.match(path, { playerId: '7', placeId: 'town', buildId: '' })
  const { points } = path
  t.strictSame(
    points.map(({ x, y, isStart }) => [x, y, isStart]),
    [
      [0, 0, true],
      [10, 20, false],
      [100, 100, true],
    ],
  )
  t.strictSame(boxOfPath(points), { left: 0, top: 0, right: 100, bottom: 100 })
  const at = (time: number) => {
    const point = pointAt(points, time)
    return point && [point.x, point.y]
  }
  t.equal(at(-1), undefined)
  t.strictSame(at(5), [5, 10])
  t.strictSame(at(25), [10, 20], 'it stays at the end of a session')
  t.strictSame(at(99), [100, 100])
})

const start = Date.now() - 600_000

/** A player's walk through the town, in a minute and a half. */
const walk = Array.from({ length: 40 }, (_, i) => ({
  projectId,
  eventId: `walk-${i}`,
  type: i % 9 === 8 ? 'shot.fired' : 'player.move',
  buildId: '2026.11.20',
  placeId: 'town',
  sessionId: 's-1',
  playerId: 7,
  timestamp: start + i * 2_001 + (i > 20 ? 10_000 : 0),
  position: { x: -300 + i * 16, y: 3, z: Math.round(150 * Math.sin(i / 6)) },
}))

browserTest('a session is played over its map, from the link of an event', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.publishMap({ placeId: 'town', buildId: '2026.11.20', map: town })
  await project.submitBatch({ events: walk })
  await project.submitBatch({ events: [{ projectId, eventId: 'other', playerId: 8, position: { x: 0, z: 0 } }] })
  const { page } = await openPage({ url: `${url}#/find?id=walk-3`, key })
  await page.locator('::-p-text(Play this session)').click()
  await waitForText(page, '40 events, played by timestamp.')
  await waitForText(page, 'Under the events:')
  await waitForText(page, 'Path of session s-1, player 7, place town, build 2026.11.20: 40 of 40 events.')
  await waitForText(page, 'cuts pauses short')
  const rows = () =>
    page.$$eval('[role=option]', (rows) =>
      rows.slice(0, 3).map((row) => [row.querySelector('.time')?.textContent, row.querySelector('.id')?.textContent]),
    )
  t.strictSame(await rows(), [
    ['0:00.000 ', 'walk-0'],
    ['0:02.001 +2.001 s', 'walk-1'],
    ['0:04.002 +2.001 s', 'walk-2'],
  ])
  const isAt = (row: number) => page.waitForSelector(`[role=option][aria-current][aria-posinset="${row + 1}"]`)
  await isAt(0)
  await page.locator('::-p-aria(Next event)').click()
  await isAt(1)
  await page.focus('.play-controls input[type=range]')
  await page.keyboard.press('End')
  await isAt(39)
  await page.keyboard.press('Home')
  await isAt(0)
  await page.locator('::-p-aria(Play[role="button"])').click()
  await page.waitForFunction(() => document.querySelector('.play-controls button')?.textContent === 'Pause')
  // with reduced motion, it steps from event to event, up to the last one
  await isAt(39)
  await page.waitForFunction(() => document.querySelector('.play-controls button')?.textContent === 'Play')

  await page.focus('.play-controls input[type=range]')
  await page.keyboard.press('Home')
  await isAt(0)
  for (let i = 0; i < 25; i++) await page.locator('::-p-aria(Next event)').click()
  await isAt(25)
  await page.setViewport({ width: 1280, height: 1_200 })
  await checkAccessibility(page, 'playback')
  await page.click('[role=option][aria-current]')
  await page.waitForFunction(() => document.querySelector('.opened-event h2')?.textContent === 'walk-25')
  const linked = await openPage({ url: page.url(), key, colorScheme: 'dark', width: 380 })
  await linked.page.waitForFunction(() => document.querySelector('.opened-event h2')?.textContent === 'walk-25')
  await waitForText(linked.page, 'Under the events:')
  await linked.page.waitForSelector('[role=option][aria-current][aria-posinset="26"]')
  await linked.page.waitForFunction(() => document.documentElement.scrollWidth <= 380)
  await linked.page.setViewport({ width: 380, height: 1_400 })
  await checkAccessibility(linked.page, 'playback-380')
  await linked.page.keyboard.press('Escape')
  await linked.page.waitForFunction(() => !document.querySelector('.opened-event'))
})

browserTest('without a range, the hour before the last event is played', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'a', playerId: 7 }] })
  for (let i = 0; i < 120; i += 60) {
    const events = Array.from({ length: 60 }, (_, j) => ({ projectId, eventId: `other-${i + j}`, playerId: 8 }))
    await project.submitBatch({ events })
  }
  const { page } = await openPage({ url: `${url}#/playback`, key })
  await waitForText(page, 'Filter by a player or a session')
  await checkAccessibility(page)
  await page.locator('.live-filters input').fill('7')
  await page.keyboard.press('Enter')
  await waitForText(page, '1 event, played by time of receipt: 1 without a valid timestamp.')
  t.match(await page.evaluate(() => location.hash), /playback\?player=7&from=.*&to=/)
  await waitForText(page, 'These events have no coordinates')
  await checkAccessibility(page)
  await page.goto(`${url}#/playback?player=9`)
  await waitForText(page, 'No matching event: check the value of the filter.')
  await page.goto(`${url}#/playback?player=7&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z`)
  await waitForText(page, 'No matching event was received in this time')
  await page.locator('::-p-text(find the last event)').click()
  await waitForText(page, '1 event, played by time of receipt')
})

browserTest(
  'playback names the player of the path, and counts events without a usable timestamp',
  async (t, openPage) => {
    const { url, key, project } = await startConsole(t)
    const [place, player] = ['p'.repeat(128), 'x'.repeat(256)]
    const at = (seconds: number) => Date.now() - 60_000 + seconds * 1_000
    const events = [
      { placeId: place, playerId: player, timestamp: at(0) },
      { placeId: place, playerId: player, timestamp: at(1) },
      { placeId: place, playerId: player, timestamp: '9999-12-31T23:59:59Z' },
      { placeId: place, playerId: player },
      { placeId: 'lobby', playerId: player, timestamp: at(2) },
      { placeId: place, playerId: 8, timestamp: at(3) },
    ].map((event, i) => ({ projectId, eventId: `e-${i}`, sessionId: 's-1', position: { x: i, z: i }, ...event }))
    await project.submitBatch({ events })
    const { page } = await openPage({ url: `${url}#/playback?session=s-1&range=1h`, key, width: 320 })
    await waitForText(page, '6 events, played by timestamp.')
    await waitForText(page, 'By time of receipt: 1 without a valid timestamp, 1 with a timestamp more than a day off.')
    await waitForText(page, `Path of session s-1, player ${player}, place ${place}: 4 of 6 events.`)
    await waitForText(page, 'These events span 2 players and 2 places: filter by another to see its path.')
    await waitForText(page, 'The path has no build, so there is no map to draw.')
    await page.waitForFunction(() => document.documentElement.scrollWidth <= 320)
    await checkAccessibility(page, 'playback-320')
  },
)
