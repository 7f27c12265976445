import t from 'tap'
import { checkAccessibility, openBrowser, submitSignIn, tryNow, waitForText } from '../browser.ts'
import { type Lie, refusal, startProxy } from '../lying-proxy.ts'
import { projectId, startConsole } from '../served-console.ts'

const browserTest = openBrowser(t)

const json = { 'Content-Type': 'application/json' }
const html = { 'Content-Type': 'text/html' }
const ndjson = { 'Content-Type': 'application/x-ndjson' }
const foreign = 'This response is not from an Ingest server'

const unlike: Record<string, Lie> = {
  'JSON with a line feed': { status: 200, headers: json, body: '{"ok":true}\n' },
  'an array with a line feed': { status: 200, headers: json, body: '[]\n' },
  'JSON lines': { status: 200, headers: ndjson, body: '{"ok":true}\n' },
  'a line without its end': { status: 200, headers: ndjson, body: '{"cursor":"c"}' },
  null: { status: 200, headers: json, body: 'null' },
  'a page': { status: 200, headers: html, body: '<!doctype html><p>Sign in' },
  nothing: { status: 200 },
  'a redirect': { status: 302, headers: { Location: '/console/' } },
}

const refusals: Record<string, Lie> = {
  'a page of 401': { status: 401, headers: html, body: '<p>Sign in' },
  'JSON of 401': { status: 401, headers: json, body: '{"code":"unauthorized"}' },
  'a page of 404': { status: 404, headers: html, body: '<p>No such host' },
  'a page of 429': { status: 429, headers: html, body: '<p>Slow down' },
}

for (const [what, lies] of [
  ['responses that are not those of an Ingest server', unlike],
  ['its own refusals, which do not end the session', refusals],
] as const) {
  browserTest(`Find recognizes a proxy that sends ${what}`, async (t, openPage) => {
    const { url, key, project } = await startConsole(t)
    await project.submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
    let lie: Lie | undefined
    const proxy = await startProxy(t, url, (path) => (path === '/v1/events' ? lie : undefined))
    const { page } = await openPage({ url: `${proxy}#/find`, key, allow: [/status of (401|404|429)/] })
    for (const [name, each] of Object.entries(lies)) {
      lie = each
      // a query loads the document again
      await page.goto(`${proxy}?${encodeURIComponent(name)}#/find?id=e-1`)
      await waitForText(page, foreign)
      t.equal(await page.$('.found-state'), null, name)
    }
    await checkAccessibility(page, 'foreign')
    lie = undefined
    await tryNow(page)
    await waitForText(page, 'Stored')
  })
}

const views = {
  everything: ['now', 'rejected', 'maps', 'maps/b-1', 'where', 'live?event=e-1', 'playback?session=s-1'],
  'events and maps': ['live', 'where', 'playback?session=s-1&range=1h', 'maps/b-1?place=p-1'],
}
const lied = { everything: /^\/(v1\/|readyz)/, 'events and maps': /^\/v1\/(events|maps\/content)$/ }

for (const what of ['everything', 'events and maps'] as const) {
  browserTest(`each view says that ${what} is not from an Ingest server`, async (_t, openPage) => {
    const { url, key, project } = await startConsole(_t)
    await project.publishMap({ placeId: 'p-1', buildId: 'b-1', map: { parts: [], name: 'town' } })
    await project.submitBatch({ events: [{ projectId, eventId: 'e-1', buildId: 'b-1' }] })
    let lie: Lie | undefined
    const proxy = await startProxy(_t, url, (path) => (lied[what].test(path) ? lie : undefined))
    const { page } = await openPage({ url: `${proxy}#/find`, key })
    await waitForText(page, 'Enter the id of an event')
    lie = unlike['JSON with a line feed']
    for (const view of views[what]) {
      await page.goto(`${proxy}?${encodeURIComponent(view)}#/${view}`)
      await waitForText(page, foreign)
    }
  })
}

browserTest('the response of a proxy does not sign in', async (t, openPage) => {
  const { url } = await startConsole(t)
  const lie = unlike['JSON with a line feed']
  const proxy = await startProxy(t, url, (path) => (path === '/v1/builds' ? lie : undefined))
  const { page } = await openPage({ url: proxy })
  await submitSignIn(page, 'ik_wrong')
  await waitForText(page, foreign)
  t.equal(await page.$('nav'), null)
})

browserTest('the server is shown as ready only if everything was loaded', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  const lied = new Map<string, Lie>()
  const proxy = await startProxy(t, url, (path) => lied.get(path))
  const { page } = await openPage({ url: `${proxy}#/now`, key, allow: [/status of (429|503)/] })
  for (const [path, lie, text] of [
    ['/v1/stats', refusal(429, 'rate-limited'), 'The read rate limit'],
    ['/readyz', { status: 200, headers: json, body: '{"status":"ok"}' }, foreign],
    ['/v1/activity', refusal(503, 'overloaded', { title: 'Overloaded' }), 'Overloaded'],
    ['/v1/stats', { status: 200, headers: json, body: '{"ok":true}' }, foreign],
  ] as const) {
    await page.waitForSelector('.ready')
    lied.set(path, lie)
    await waitForText(page, text)
    t.equal(await page.$('.ready'), null, `${path} failed`)
    t.equal((await page.$$('[role=alert]')).length, 1)
    lied.clear()
    await tryNow(page)
  }
})

browserTest('a long Retry-After is capped, and the user can retry at once', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  let lie: Lie | undefined = refusal(429, 'rate-limited', { 'Retry-After': '99999999' })
  const proxy = await startProxy(t, url, (path) => (path === '/v1/events' ? lie : undefined))
  const { page } = await openPage({ url: `${proxy}#/find?id=e-1`, key, allow: [/status of 429/] })
  await waitForText(page, 'The read rate limit of the project is reached.')
  t.match(await page.$eval('.notice.failed', ({ textContent }) => textContent), /Trying again in 1 h\. Try now$/)
  await checkAccessibility(page, 'limited')
  lie = undefined
  await page.locator('::-p-aria(Try now)').click()
  await waitForText(page, 'Stored')
})
