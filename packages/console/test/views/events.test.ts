import t from 'tap'
import { checkAccessibility, openBrowser, waitForText } from '../browser.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

browserTest('an event is found by its id, and its address can be shared', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  const event = `{"projectId":"${projectId}","eventId":"a/b?c=d&é","n":1.50,"position":{"x":12.5,"z":-3}}`
  await project.submitBatch(Buffer.from(`{"events":[${event}]}`))
  const { page } = await openPage({ url: `${url}#/find`, key, colorScheme: 'dark' })
  await waitForText(page, 'Enter the id of an event')
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

browserTest('erased, unknown and invalid ids are distinguished', async (t, openPage) => {
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
