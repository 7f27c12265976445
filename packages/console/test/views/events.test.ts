import t from 'tap'
import { checkAccessibility, openBrowser, signOut, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

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
