import { createIngest, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, openBrowser, serverGone, tryNow, waitForText } from '../browser.ts'
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

browserTest('events appear as they are stored, newest first, and open with their exact bytes', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const { page } = await openPage({ url: `${url}#/live`, key })
  await waitForText(page, 'No events yet.')
  await checkAccessibility(page)
  for (const prefix of ['a-', 'b-', 'e-']) await project.submitBatch(batch(prefix, 100))
  await waitForNewest(page, 'e-99')
  const exact = String.raw`{ "projectId":"game-1","eventId":"exact","n":12345678901234567890.10,"s":"\u00e4<b>" }`
  await project.submitBatch(Buffer.from(`{"events":[${exact}]}`))
  await waitForNewest(page, 'exact')
  t.strictSame((await rowIds(page)).slice(0, 3), ['exact', 'e-99', 'e-98'])
  t.ok((await rowIds(page)).length < 60, 'only visible rows are rendered')
  await page.click('[role=option]')
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
  await waitForText(page, 'e-99')
  await page.keyboard.press('End')
  await page.waitForFunction(() => document.querySelector('.opened-event h2')?.textContent === 'a-0')
  await page.waitForSelector('[role=option][aria-selected=true][aria-posinset="301"]')
  await page.setViewport({ width: 380, height: 800 })
  await checkAccessibility(page, 'live-380')
  t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 380), 'the page fits a phone')
})

browserTest('filters select of what is held', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch(batch('e-', 60))
  const { page } = await openPage({ url: `${url}#/live`, key, colorScheme: 'dark' })
  await waitForText(page, '60 of 60 shown')
  await page.select('.controls select', '=shot.fired')
  await waitForText(page, '10 of 60 shown')
  await page.locator('input[type=search]').fill('"E-2"')
  await waitForText(page, '1 of 60 shown')
  t.strictSame(await rowIds(page), ['e-2'])
  await page.locator('::-p-text(Show all)').click()
  await waitForText(page, '60 of 60 shown')
  await page.select('label:nth-of-type(2) select', '=')
  await waitForText(page, '15 of 60 shown')
  await checkAccessibility(page, 'live')
})

browserTest('paused, nothing moves; resumed, what came meanwhile appears', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch(batch('a-', 1))
  const { page, requests } = await openPage({ url: `${url}#/live`, key })
  await waitForNewest(page, 'a-0')
  await page.locator('::-p-aria(Pause)').click()
  await waitForText(page, 'Paused')
  await checkAccessibility(page)
  const before = requests.length
  await project.submitBatch(batch('b-', 5))
  t.strictSame(await rowIds(page), ['a-0'])
  t.equal(requests.length, before)
  await page.locator('::-p-aria(Resume)').click()
  await waitForNewest(page, 'b-4')
  t.equal((await rowIds(page)).length, 6)
})

browserTest('far behind, it shows a part and says so', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch(batch('a-', 1))
  const { page } = await openPage({ url: `${url}#/live`, key })
  await waitForNewest(page, 'a-0')
  await page.locator('::-p-aria(Pause)').click()
  await waitForText(page, 'Paused')
  for (let first = 0; first < 20; first++) await project.submitBatch(batch(`b-${first}-`, 100))
  await page.locator('::-p-aria(Resume)').click()
  await waitForText(page, 'Live, sampled')
  await waitForText(page, 'More events arrive than are shown')
  await waitForText(page, '1,000 of 1,000 shown')
  t.ok((await rowIds(page)).length < 60)
  await checkAccessibility(page)
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
  await waitForText(page, '149 of 149 shown')
  t.equal(await topOf('a-80'), top)
  await page.locator('.newer').click()
  await waitForNewest(page, 'b-49')
})

browserTest('its cursor refused, as after a restore, it goes on with the newest events', async (t, openPage) => {
  const { url, key, project, server } = await startConsole(t)
  await project.submitBatch(batch('a-', 3))
  const { page } = await openPage({ url: `${url}#/live`, key, allow: [...serverGone, /status of 400/] })
  await waitForNewest(page, 'a-2')
  await server.close()
  const restored = createIngest({ store: openMemoryStore(), authenticate: async () => true })
  t.teardown(() => restored.close())
  await restored.project(projectId).submitBatch(batch('b-', 3))
  await waitForText(page, 'The server has not responded since')
  const next = await serve({ ingest: restored, port: Number(new URL(url).port), closeTimeoutMs: 1 })
  t.teardown(() => next.close())
  await tryNow(page)
  await waitForText(page, 'The server refused the cursor')
  await checkAccessibility(page)
  await restored.project(projectId).submitBatch(batch('c-', 1))
  await waitForNewest(page, 'c-0')
  t.strictSame(await rowIds(page), ['c-0', 'b-2', 'b-1', 'b-0', 'a-2', 'a-1', 'a-0'])
  t.equal(await page.$eval('.after-gap .id', ({ textContent }) => textContent), 'b-0')
})

browserTest('the server gone, it continues where it was', async (t, openPage) => {
  const { url, key, project, server, start } = await startConsole(t)
  await project.submitBatch(batch('a-', 3))
  const { page } = await openPage({ url: `${url}#/live`, key, allow: serverGone })
  await waitForNewest(page, 'a-2')
  await server.close()
  await waitForText(page, 'The server has not responded since')
  await checkAccessibility(page)
  await project.submitBatch(batch('b-', 2))
  await start({ port: Number(new URL(url).port) })
  await tryNow(page)
  await waitForNewest(page, 'b-1')
  t.equal((await rowIds(page)).length, 5)
})
