import t from 'tap'
import { checkAccessibility, openBrowser, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

/** Not as `JSON.stringify` would write it. */
const exact = '{"projectId":"game-1", "eventId":"spaced","type":7,"x":1.50}'

const batchOf = (...events: object[]) =>
  Buffer.from(JSON.stringify({ events: events.map((event) => ({ projectId, ...event })) }))

const rows = '.rejections > li'

browserTest('rejected events by issue, with what was sent', async (t, openPage) => {
  const { url, key, project } = await startConsole(t, { rejected: { keepEvents: true } })
  await project.submitBatch(
    batchOf(
      { eventId: 'a', playerId: { id: 1 } },
      { eventId: 'b', playerId: [] },
      { eventId: 'c', type: 5, playerId: true },
      { type: 'round.start' },
      { eventId: 'ok' },
    ),
  )
  await project.submitBatch(Buffer.from(`{"events":[${exact}]}`))
  const { page } = await openPage({ url: `${url}#/rejected`, key })
  await page.waitForSelector(rows)
  const texts = (selector: string) => page.$$eval(selector, (all) => all.map(({ textContent }) => textContent ?? ''))
  const waitForRows = (count: number) =>
    page.waitForFunction((rows, count) => document.querySelectorAll(rows).length === count, {}, rows, count)

  t.match(await texts('.issue-groups a'), [
    /^3invalid_type \/playerId/,
    /^2invalid_type \/type/,
    /^1required \/eventId/,
  ])
  t.match(await texts('.rejections summary'), [/spaced/, /no valid id.*required/, /index 2c/, /index 1b/, /index 0a/])
  await checkAccessibility(page, 'rejected')

  // with the keyboard
  await page.focus('.issue-groups li:nth-child(2) a')
  await page.keyboard.press('Enter')
  await waitForRows(2)
  t.match(await page.evaluate(() => location.hash), '#/rejected?code=invalid_type&path=%2Ftype')
  t.same(await texts('[aria-current=true] code'), ['invalid_type', '/type'])
  await page.focus('.rejections summary')
  await page.keyboard.press('Enter')
  await page.waitForSelector('.rejection')
  t.same(await texts('.rejection [aria-label="Exact bytes"] pre'), [exact])
  t.match(await texts('.rejection .json'), [/^\{\n {2}"projectId": "game-1",[\s\S]*"x": 1.50\n\}$/])
  await checkAccessibility(page, 'rejected-open')

  // an open event stays open while others arrive
  await project.submitBatch(batchOf({ eventId: 'd', type: {} }))
  await waitForRows(3)
  t.equal(await page.$eval(`${rows}:nth-child(2) details`, (details) => details.open), true)
  await page.setViewport({ width: 380, height: 800 })
  await page.waitForFunction(() => document.documentElement.scrollWidth === 380)
  await page.locator('::-p-aria(Show all)').click()
  await waitForRows(6)
  await page.goBack()
  await waitForRows(3)
  await page.locator(`${rows}:nth-child(2) summary`).click()
  await page.locator('.rejection a').click()
  await page.waitForFunction(() => location.hash === '#/find?id=spaced')
})

browserTest('nothing rejected is good news', async (_t, openPage) => {
  const { url, key, project } = await startConsole(_t)
  const { page } = await openPage({ url: `${url}#/rejected`, key, colorScheme: 'dark' })
  await waitForText(page, 'Nothing was rejected since')
  await checkAccessibility(page)
  await project.submitBatch(batchOf({ eventId: 'a', type: 5 }))
  await page.waitForSelector(rows)
})

browserTest('of a thousand events a hundred are shown at first; a hint says how to keep them', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const events = Array.from({ length: 100 }, (_, index) => ({ eventId: `e-${index}`, type: index }))
  for (let batch = 0; batch < 11; batch++) await project.submitBatch(batchOf(...events))
  const { page } = await openPage({ url: `${url}#/rejected`, key })
  await waitForText(page, '--keep-rejected')
  await waitForText(page, '1,100 rejected since')
  await waitForText(page, 'The last 1,000 are kept')
  t.equal((await page.$$(rows)).length, 100)
  await page.locator('::-p-aria(Show 100 more (900 left))').click()
  await page.waitForSelector(`${rows}:nth-child(200)`)
})

browserTest('one of several servers says so, also if it rejected nothing', async (_t, openPage) => {
  const { url, key } = await startConsole(_t)
  const { page } = await openPage({ url, key })
  await page.setRequestInterception(true)
  page.on('request', (request) => {
    if (!request.url().endsWith('/v1/activity')) return request.continue()
    return request.respond({ status: 200, contentType: 'application/json', body: JSON.stringify({ servers: 3 }) })
  })
  await page.goto(`${url}#/rejected`)
  await waitForText(page, 'One of 3 servers responds')
  await waitForText(page, 'Nothing was rejected since')
})

browserTest('a server without the route is of another version', async (_t, openPage) => {
  const { url, key } = await startConsole(_t)
  const { page } = await openPage({ url, key, allow: [/status of 404/] })
  await page.setRequestInterception(true)
  page.on('request', (request) => {
    if (!request.url().includes('/v1/rejected')) return request.continue()
    return request.respond({ status: 404, body: '{"code":"not-found"}' })
  })
  await page.goto(`${url}#/rejected`)
  await waitForText(page, 'This server does not list rejected events: it is of another version')
})
