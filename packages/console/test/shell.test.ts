import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page, WebWorker } from 'puppeteer-core'
import t, { type Test } from 'tap'
import {
  checkAccessibility,
  checkTargets,
  openBrowser,
  requestTimeoutMs,
  serverGone,
  signIn,
  signOut,
  submitSignIn,
  waitForText,
} from './browser.ts'
import { refusal, startProxy } from './lying-proxy.ts'
import { projectId, startConsole } from './served-console.ts'

const browserTest = openBrowser(t)

const views = ['live', 'rejected', 'maps', 'where', 'playback', 'find', 'now']

const unauthorized = [/status of 401/]

browserTest('problems of a page and its worker are noticed', async (t, openPage) => {
  const { url, key } = await startConsole(t)
  const { page, problems } = await openPage({ url, key, allow: [/./] })
  t.strictSame(problems, [])
  await page.evaluate(async () => {
    const script = document.createElement('script')
    script.textContent = 'document.title = "ran"'
    document.body.append(script)
    document.body.insertAdjacentHTML('beforeend', '<p style="color: red">red</p><img src="data:,">')
    await fetch('http://example.com/from-page').catch(() => {})
    await fetch('../v1/unknown')
    console.warn('a warning')
    setTimeout(() => {
      throw new Error('from the page')
    })
    const worker = new Worker('worker.js')
    // without a reference, it may be collected
    Object.assign(globalThis, { worker })
    worker.postMessage({ type: 'call', number: 1, name: 'a call that does not exist' })
    // evaluating in a worker that has not run its script yet may crash Chromium
    await new Promise((resolve) => worker.addEventListener('message', resolve))
  })
  await (page.workers()[0] as WebWorker).evaluate(async () => {
    await fetch('http://example.com/from-worker').catch(() => {})
    await new Promise((resolve) => {
      addEventListener('error', resolve)
      setTimeout(() => {
        throw new Error('from the worker')
      })
    })
  })
  await t.rejects(checkAccessibility(page), { message: /image-alt .* at img/ })
  const expected = [
    /ContentSecurityPolicyIssue.*script-src-elem/,
    /ContentSecurityPolicyIssue.*style-src-attr/,
    /ContentSecurityPolicyIssue.*from-page/,
    /ContentSecurityPolicyIssue.*from-worker/,
    /status of 404.*unknown/,
    /a warning/,
    /a call that does not exist/,
    /uncaught.*from the page/,
    /uncaught.*from the worker/,
  ]
  for (const pattern of expected)
    t.ok(
      problems.some((problem) => pattern.test(problem)),
      `${pattern}`,
    )
  t.not(await page.title(), 'ran')
})

browserTest('the key stays in the tab and is sent only to its own origin', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  const { page, requests } = await openPage({ url })
  await checkAccessibility(page, 'sign-in')
  await signIn(page, key)
  for (const view of views) await openView(page, view)

  await page.reload()
  await page.waitForSelector('nav')
  t.match(await storage(page), { session: key, others: '' })
  t.strictSame([...new Set(requests.map((each) => new URL(each.url()).origin))], [new URL(url).origin])
  const withKey = requests.filter((each) => each.headers()['x-ingestion-key'] === key)
  t.ok(withKey.length > 0)
  t.notOk(
    withKey.some((each) => each.url().startsWith(url)),
    'files of the page are requested without the key',
  )
  t.notOk(requests.some((each) => each.url().includes(key)))
  t.notOk((await page.evaluate(() => location.href)).includes(key))

  await signOut(page)
  t.match(await storage(page), { session: '', others: '' })
  await page.reload()
  await page.waitForSelector('input[name=key]')
})

browserTest('a wrong key is refused with a message, and no request is retried', async (t, openPage) => {
  const { url, key } = await startConsole(t)
  const { page, requests } = await openPage({ url, allow: unauthorized })
  await hurry(page)
  await submitSignIn(page, `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`)
  await waitForText(page, 'The key was refused')
  t.equal(apiPaths(requests).length, 1)
  await passTenMinutes(page)
  t.equal(apiPaths(requests).length, 1)
  t.match(await storage(page), { session: '', others: '' })
  await signIn(page, key)
})

browserTest('revoking the key ends the session, and no request is retried', async (t, openPage) => {
  const { url, key, ingest } = await startConsole(t)
  const { page, requests } = await openPage({ url, key, allow: unauthorized })
  await waitForText(page, 'No event is stored')
  await hurry(page)
  for (const { keyId } of await ingest.keys.list(projectId)) await ingest.keys.revoke(projectId, keyId)
  await waitForText(page, 'The key was refused')
  t.match(await storage(page), { session: '', others: '' })
  const { length } = requests
  await passTenMinutes(page)
  t.equal(requests.length, length)
})

browserTest(
  'while the server does not respond, the page says since when; it recovers by itself',
  async (t, openPage) => {
    const { url, key, server, start, project } = await startConsole(t)
    await project.submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
    const { page } = await openPage({ url, key, allow: serverGone })
    await waitForText(page, 'Last event')
    await server.close()
    await waitForText(page, 'The server has not responded since')
    await waitForText(page, 'It is not known whether the server is ready.')
    t.match(await page.$eval('.banner time', (time) => time.title), /^\d{4}-.*Z$/)
    await checkAccessibility(page, 'offline')

    // `hurry` would make failing polls so frequent that a slow machine gets no further
    await recordDelays(page)
    const delays = async () => {
      const all = await page.evaluate(() => (window as unknown as { delays: number[] }).delays)
      return all.filter((ms) => ms !== requestTimeoutMs)
    }
    await page.waitForFunction(() => (window as unknown as { delays: number[] }).delays.some((ms) => ms > 2_500))
    t.ok(Math.max(...(await delays())) <= 5_000, 'the page is back within 5 seconds')
    for (const view of views) {
      await page.locator(`nav a[href$="/${view}"]`).click()
      await page.waitForSelector(`nav a[href$="/${view}"][aria-current]`)
      t.equal((await page.$$('[role=alert]')).length, 1, `${view} has one error`)
    }

    await start({ port: server.port })
    await page.waitForSelector('.banner', { hidden: true })
    await project.submitBatch({ events: [{ projectId, eventId: 'e-2' }] })
    await page.waitForFunction(() => /Events stored\s*2/.test(document.body.textContent ?? ''))
    await waitForText(page, 'A batch sent now would be stored.')
    t.equal(await page.$('[role=alert]'), null)
  },
)

browserTest('each view can be reached by keyboard alone', async (t, openPage) => {
  const { url, key } = await startConsole(t)
  const { page } = await openPage({ url })
  await pressUntil(page, 'Tab', 'input[name=project]')
  await page.keyboard.type(projectId)
  await page.keyboard.press('Tab')
  await page.keyboard.type(key)
  await page.keyboard.press('Enter')
  await page.waitForSelector('nav')
  for (const view of views) {
    await pressUntil(page, 'Tab', `nav a[href$="/${view}"]`)
    t.not(await page.$eval(':focus', (link) => getComputedStyle(link).outlineStyle), 'none', 'the focus is visible')
    await page.keyboard.press('Enter')
    await page.waitForFunction(
      (view) => location.hash.endsWith(`/${view}`) && document.activeElement?.localName === 'h1',
      {},
      view,
    )
    t.equal(await page.title(), `${await page.$eval('h1', (heading) => heading.textContent)} – ${projectId} – Ingest`)
  }
  await page.reload()
  await page.waitForSelector('nav')
  await page.keyboard.press('Tab')
  await page.waitForSelector('.skip:focus')
  await page.keyboard.press('Enter')
  await page.waitForSelector('main:focus')
})

for (const [width, colorScheme] of [
  [1280, 'light'],
  // also a page of 1280 px at a zoom of 400 %
  [320, 'dark'],
] as const) {
  browserTest(
    `${width} px wide, ${colorScheme}, no view scrolls sideways or breaks a rule of axe`,
    async (t, openPage) => {
      const { url, key, project, newKey, server } = await startConsole(t)
      const eventId = 'w'.repeat(256)
      const type = 't'.repeat(200)
      const event = {
        projectId,
        eventId,
        type,
        buildId: 'b'.repeat(128),
        placeId: 'p'.repeat(128),
        position: { x: 1, z: 2 },
      }
      await project.publishMap({ placeId: event.placeId, buildId: event.buildId, map: { parts: [{ name: type }] } })
      await submit(server.url, await newKey('events:write'), [event, { ...event, eventId: 'e-2', timestamp: type }])
      const { page } = await openPage({ url, key, width, colorScheme })
      for (const view of views) {
        await openView(page, view)
        await checkAccessibility(page)
        await checkTargets(page)
        const [height, right] = await page.$eval('nav [aria-current]', (link) => [
          link.closest('ul')?.clientHeight ?? 0,
          link.getBoundingClientRect().right,
        ])
        t.ok((height as number) < 60 && (right as number) <= width, 'the navigation is one line with the current view')
        t.ok((await scrollWidth(page)) <= width, `${view} is ${await scrollWidth(page)} px wide`)
      }
      await page.locator('button.project').click()
      await checkAccessibility(page, `menu-${width}`)
      t.ok((await scrollWidth(page)) <= width, 'with the menu too')
    },
  )
}

browserTest('the page says what an older server does not support', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  const isLater = (path: string) => /^\/v1\/(activity|rejected)$/.test(path)
  const older = await startProxy(t, url, (path) => (isLater(path) ? refusal(404, 'not-found') : undefined))
  const { page, requests } = await openPage({ url: older, allow: [/status of 404.*(activity|rejected)/] })
  await hurry(page)
  await signIn(page, key)
  await waitForText(page, 'Last event')
  await waitForText(page, 'This server does not')
  await openView(page, 'rejected')
  await waitForText(page, 'This server does not')
  await passTenMinutes(page)
  // by type, by build and without either are different requests
  const missing = requests.map((each) => each.url()).filter((url) => /v1\/(activity|rejected)/.test(url))
  t.strictSame(missing.sort(), [...new Set(missing)], 'each is requested once')
})

browserTest(
  'a tab is signed in to several projects, and a link of another one asks for its key',
  async (t, openPage) => {
    const { url, key, ingest } = await startConsole(t)
    const other = 'game-2'
    const { key: otherKey } = await ingest.keys.create(other, { scopes: ['read'] })
    await ingest.project(other).submitBatch({ events: [{ projectId: other, eventId: 'e-2' }] })
    const { page } = await openPage({ url: `${url}#/find?id=e-1`, key, allow: unauthorized })
    t.equal(await page.evaluate(() => location.hash), `#/p/${projectId}/find?id=e-1`)
    await waitForText(page, 'Not stored')
    await page.waitForFunction((title) => document.title === title, {}, `e-1 – Find – ${projectId} – Ingest`)

    // a link from another user
    await page.evaluate((hash) => location.assign(hash), `#/p/${other}/find?id=e-2`)
    await waitForText(page, 'This tab is not signed in to')
    t.equal(await page.$eval('input[name=project]', (field) => field.value), other)
    t.equal(await page.title(), `Sign in – ${other} – Ingest`)
    await checkAccessibility(page, 'sign-in-other')
    await signIn(page, otherKey, other)
    await waitForText(page, 'Stored')
    t.equal(await page.evaluate(() => location.hash), `#/p/${other}/find?id=e-2`)

    // back and forth by the menu and by links
    await page.locator('button.project').click()
    await checkAccessibility(page, 'projects')
    await page.keyboard.press('Escape')
    await page.waitForFunction(() => document.activeElement?.className === 'project')
    await page.locator('button.project').click()
    await page.locator(`#projects a[href="#/p/${projectId}/find"]`).click()
    await waitForText(page, 'Enter the id')
    await page.goBack()
    await waitForText(page, 'Stored')
    t.match(await storage(page), { session: `${otherKey},${key}`, others: '' })

    // a third project, and a refused key, which ends only the session of its project
    await page.locator('button.project').click()
    await page.locator('#projects > a').click()
    await waitForText(page, 'This tab is signed in to')
    await submitSignIn(page, key, 'game-3')
    await waitForText(page, 'The key was refused')
    await page.goBack()
    await waitForText(page, 'Stored')
    for (const { keyId } of await ingest.keys.list(other)) await ingest.keys.revoke(other, keyId)
    await openView(page, 'maps')
    await waitForText(page, 'The key was refused')
    t.match(await storage(page), { session: key, others: '' })
    await page.locator(`main a[href="#/p/${projectId}"]`).click()
    await waitForText(page, 'No event is stored')

    await page.locator('button.project').click()
    await page.locator('#projects li button').click()
    await page.waitForSelector('input[name=key]')
    t.match(await storage(page), { session: '', others: '' })
  },
)

browserTest('times are shown in UTC or in the time zone of the browser', async (t, openPage) => {
  const { url, key, project } = await startConsole(t)
  await project.submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  const { page } = await openPage({ url: `${url}#/find?id=e-1`, key, width: 380 })
  await page.emulateTimezone('Asia/Tokyo')
  await page.reload()
  const shown = () => page.$eval('.found-state time', (time) => [time.textContent, time.title] as const)
  await page.waitForSelector('.found-state')
  const [local, exact] = await shown()
  t.notOk(exact.includes(local), 'Tokyo is nine hours ahead')
  const utc = '::-p-aria(UTC[role="button"])'
  await page.locator(utc).click()
  await page.waitForSelector('header [aria-pressed=true]')
  t.ok((await shown())[1].includes((await shown())[0]))
  await checkAccessibility(page, 'utc')
  await page.reload()
  await page.waitForSelector('.found-state')
  t.ok((await shown())[1].includes((await shown())[0]), 'for this tab')
  await page.locator(utc).click()
  await page.waitForSelector('header [aria-pressed=false]')
  t.equal((await shown())[0], local)
})

browserTest('an unknown view says so, with a link to Now', async (_t, openPage) => {
  const { url, key } = await startConsole(_t)
  const { page } = await openPage({ url: `${url}#/p/${projectId}/nothing`, key })
  await waitForText(page, 'There is no view')
  await page.locator('main .notice a').click()
  await page.waitForSelector('nav a[href$="/now"][aria-current]')
})

browserTest('a link that is followed before the first paint is not missed', async (t, openPage) => {
  const { url, key } = await startConsole(t)
  const { page } = await openPage({ url })
  await page.evaluate(() => {
    const observer = new MutationObserver(() => {
      if (!document.querySelector('nav')) return
      observer.disconnect()
      location.hash = '#/find'
    })
    observer.observe(document.body, { childList: true, subtree: true })
  })
  await signIn(page, key)
  await page.waitForSelector('nav a[href$="/find"][aria-current]')
})

browserTest(
  'a view is loaded when it is opened, and one that cannot be loaded offers a reload',
  async (t, openPage) => {
    const { url, key } = await startConsole(t)
    const { page, requests } = await openPage({ url: `${url}#/find`, key, allow: [/status of 404/] })
    await waitForText(page, 'Enter the id')
    const modules = () =>
      requests.map((each) => /(\w+)-\w+\.js$/.exec(each.url())?.[1]).filter((name) => name !== 'chunk')
    t.strictSame(modules().filter(Boolean), ['find'])
    // as after an update of the server
    let isUpdated = true
    await page.setRequestInterception(true)
    page.on('request', (request) => {
      if (isUpdated && /maps-\w+\.js$/.test(request.url())) return request.respond({ status: 404 })
      return request.continue()
    })
    await openView(page, 'maps')
    await waitForText(page, 'could not be loaded')
    await checkAccessibility(page, 'view-not-loaded')
    await openView(page, 'find')
    isUpdated = false
    await openView(page, 'maps')
    await page.locator('::-p-aria(Reload the page)').click()
    await waitForText(page, 'No builds yet')
  },
)

browserTest('a view that cannot show a response leaves the rest of the page usable', async (_t, openPage) => {
  const { url, key } = await startConsole(_t)
  const { page } = await openPage({ url: `${url}#/find`, key, allow: [/RangeError/] })
  await page.setRequestInterception(true)
  page.on('request', (request) => {
    if (!request.url().endsWith('/v1/stats')) return request.continue()
    return request.respond({ status: 200, contentType: 'application/json', body: '{"events":1}' })
  })
  await page.locator('nav a[href$="/now"]').click()
  await waitForText(page, 'This view failed')
  await openView(page, 'find')
  await page.waitForSelector('form')
})

browserTest('no other page may frame the console', async (t, openPage) => {
  const { url } = await startConsole(t)
  const framing = createServer((_, res) => {
    res.setHeader('Content-Type', 'text/html').end(`<!doctype html><iframe src="${url}"></iframe>`)
  })
  const framingUrl = await listen(t, framing)
  const allow = [/frame-ancestors/, /another origin/, /ERR_BLOCKED_BY_RESPONSE/, /status of 404/, /chrome-error:/]
  const { page, problems } = await openPage({ url: framingUrl, allow })
  await page.waitForFunction(() => window.frames.length === 1)
  t.match(
    page.frames().map((frame) => frame.url()),
    [`${framingUrl}`, 'chrome-error://chromewebdata/'],
  )
  t.ok(problems.some((problem) => problem.includes('frame-ancestors')))
})

async function openView(page: Page, view: string): Promise<void> {
  await page.locator(`nav a[href$="/${view}"]`).click()
  await page.waitForSelector(`nav a[href$="/${view}"][aria-current]`)
  await page.waitForFunction(() => !document.querySelector('.notice.loading'))
}

/** Presses the key until the element has the focus. */
async function pressUntil(page: Page, key: 'Tab', selector: string): Promise<void> {
  for (let count = 0; count < 100; count++) {
    await page.keyboard.press(key)
    if (await page.$(`${selector}:focus`)) return
  }
  throw new Error(`no ${key} leads to ${selector}`)
}

/** The keys that the tab stores, and all storage that outlives the tab. */
function storage(page: Page): Promise<{ session: string; others: string }> {
  return page.evaluate(() => ({
    session: JSON.parse(sessionStorage.getItem('ingest-sessions') ?? '[]')
      .map(({ key }: { key: string }) => key)
      .join(),
    others: Object.values(localStorage).join(),
  }))
}

function scrollWidth(page: Page): Promise<number> {
  return page.evaluate(() => document.scrollingElement?.scrollWidth ?? 0)
}

function apiPaths(requests: readonly { url(): string }[]): string[] {
  return requests.map((each) => new URL(each.url()).pathname).filter((path) => path.startsWith('/v1/'))
}

/** Runs the timers of the page, but not those of its requests, a thousand times as fast. */
async function hurry(page: Page): Promise<void> {
  await page.evaluate((requestTimeoutMs) => {
    const { setTimeout } = window
    const hurried = (run: () => void, ms = 0) => setTimeout(run, ms === requestTimeoutMs ? ms : ms / 1000)
    Object.assign(window, { setTimeout: hurried })
  }, requestTimeoutMs)
}

/** Collects the delays of the timers of the page. */
async function recordDelays(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { setTimeout } = window
    const delays: number[] = []
    const recorded = (run: () => void, ms = 0) => {
      delays.push(ms)
      return setTimeout(run, ms)
    }
    Object.assign(window, { setTimeout: recorded, delays })
  })
}

/** Resolves when every timer due within ten minutes has run, after `hurry`. */
async function passTenMinutes(page: Page): Promise<void> {
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 600_000)))
}

async function submit(serverUrl: string, key: string, events: object[]): Promise<void> {
  const response = await fetch(`${serverUrl}/v1/events/batch`, {
    method: 'POST',
    headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ events }),
  })
  if (response.status !== 202) throw new Error(await response.text())
}

async function listen(t: Test, server: ReturnType<typeof createServer>): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}
