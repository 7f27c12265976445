import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, CDPSession, HTTPRequest, Page } from 'puppeteer-core'
import type { Test } from 'tap'
import { runAxe } from '../scripts/axe.js'
import { launchBrowser, noBrowser, packageDirectory } from '../scripts/chromium.js'
import { projectId } from './served-console.ts'

// How to test a view, in views/events.test.ts or views/builds.test.ts:
//
//   const browserTest = openBrowser(t)
//   browserTest('an event is found by its id', async (t, openPage) => {
//     const { url, key, project } = await startConsole(t)
//     await project.submitBatch({ events: [ … ] })
//     const { page } = await openPage({ url: `${url}#/find`, key })
//     await page.locator('::-p-aria(Event id)').fill('e-1')
//     await page.locator('::-p-aria(Find[role="button"])').click()
//     await waitForText(page, 'stored')
//     await checkAccessibility(page, 'find')
//   })
//
// A test fails if the page or its workers violate the CSP, log a warning or an error, throw an uncaught error, or send a
// request that fails or goes to another origin. List expected problems in `allow`. Wait for what the page shows, never
// for time: the timers of a page run 20 times as fast. If no browser starts, these tests are skipped with the reason.
//
// Test some states of a view in each colour scheme: axe checks contrast.

export type ColorScheme = 'light' | 'dark'

export interface PageOptions {
  url: string
  /** Signs in with this key. Default: the page stays signed out. */
  key?: string
  /** Default: that of `startConsole`. */
  project?: string
  /** Default: light. */
  colorScheme?: ColorScheme
  /** In CSS pixels. Default: 1,280. */
  width?: number
  /** The time at which the clock of the page stands still. Default: it runs. */
  now?: number
  /** Problems that the test expects, such as `/status of 401/`. */
  allow?: readonly RegExp[]
}

export interface OpenedPage {
  page: Page
  /** Every request of the page and of its workers so far. */
  requests: readonly HTTPRequest[]
  /** All problems so far, including allowed ones. */
  problems: readonly string[]
}

/** A longer test is waiting for something that never happens, such as the result of a worker that has ended. */
const hangMs = 180_000

type BrowserTest = (name: string, run: (t: Test, openPage: OpenPage) => Promise<void>) => void
type OpenPage = (options: PageOptions) => Promise<OpenedPage>

/** One browser for the tests of a file, closed at its end. */
export function openBrowser(t: Test): BrowserTest {
  let browser: Promise<Browser> | undefined
  t.teardown(async () => (await browser)?.close())
  return (name, run) =>
    void t.test(name, { skip: noBrowser, timeout: hangMs }, async (t) => {
      browser ??= launchBrowser()
      const pages: WatchedPage[] = []
      const openPage: OpenPage = async (options) => {
        const opened = await openWatchedPage(await (browser as Promise<Browser>), options)
        pages.push(opened)
        return opened
      }
      try {
        await run(t, openPage)
      } finally {
        for (const { page, unexpectedProblems } of pages) {
          t.strictSame(await unexpectedProblems(), [], 'the page has no problems')
          // before the server closes
          await page.browserContext().close()
        }
      }
    })
}

interface WatchedPage extends OpenedPage {
  unexpectedProblems(): Promise<string[]>
}

/** A page with storage and a cache of its own, closed at the end of the test. */
async function openWatchedPage(
  browser: Browser,
  { url, key, project = projectId, colorScheme = 'light', width = 1280, now, allow = [] }: PageOptions,
): Promise<WatchedPage> {
  const context = await browser.createBrowserContext()
  const page = await context.newPage()
  page.setDefaultTimeout(120_000)
  const { requests, problems } = await watchPage(page, new URL(url).origin)
  await page.setViewport({ width, height: 800 })
  await setColorScheme(page, colorScheme)
  await speedUp(page)
  if (now !== undefined) await page.evaluateOnNewDocument((now) => Object.assign(Date, { now: () => now }), now)
  await page.goto(url)
  if (key !== undefined) await signIn(page, key, project)
  return {
    page,
    requests,
    problems,
    async unexpectedProblems() {
      await settle(page)
      return problems.filter((problem) => !allow.some((pattern) => pattern.test(problem)))
    },
  }
}

/** Fills in the sign-in and waits for the view. */
export async function signIn(page: Page, key: string, project = projectId): Promise<void> {
  await submitSignIn(page, key, project)
  await page.waitForSelector('nav')
}

/** Fills in the sign-in. */
export async function submitSignIn(page: Page, key: string, project = projectId): Promise<void> {
  await page.locator('input[name=project]').fill(project)
  await page.locator('input[name=key]').fill(key)
  await page.locator('::-p-aria(Open[role="button"])').click()
}

/** Signs out of the first project of the menu, which is the current one. */
export async function signOut(page: Page): Promise<void> {
  await page.locator('button.project').click()
  await page.locator('#projects li button').click()
  await page.waitForSelector('input[name=key]')
}

/** Waits until the page shows the text, in one element. */
export async function waitForText(page: Page, text: string): Promise<void> {
  await page.waitForSelector(`::-p-text(${text})`, { visible: true })
}

/** Enters a build id into the field with this label; '' for none. */
export async function chooseBuild(page: Page, label: string, buildId: string): Promise<void> {
  // three clicks select its text
  await page.locator(`::-p-aria(${label}[role="combobox"])`).click({ count: 3 })
  if (buildId === '') await page.keyboard.press('Backspace')
  else await page.keyboard.type(buildId)
  await page.keyboard.press('Tab')
}

/** Ends the pause before the next attempt, if there still is one. */
export async function tryNow(page: Page): Promise<void> {
  await page.evaluate(() => document.querySelector<HTMLElement>('.banner button, .notice.failed button')?.click())
}

async function watchPage(page: Page, origin: string): Promise<{ requests: HTTPRequest[]; problems: string[] }> {
  const requests: HTTPRequest[] = []
  const problems: string[] = []
  const note = (problem: string) => void problems.push(problem)
  // includes messages of its workers
  page.on('console', (message) => {
    const type = message.type()
    if (type === 'error' || type === 'warn') note(`console.${type}: ${message.text()} ${message.location().url ?? ''}`)
  })
  page.on('pageerror', (error) => note(`uncaught: ${error instanceof Error ? error.stack : error}`))
  page.on('error', (error) => {
    note(`crashed: ${error.message}`)
    // otherwise pending evaluate() calls never settle
    void page.close()
  })
  page.on('request', (request) => {
    requests.push(request)
    const { protocol, origin: target } = new URL(request.url())
    if (target !== origin && protocol !== 'data:') note(`request to another origin: ${request.url()}`)
  })
  page.on('requestfailed', (request) => {
    const text = request.failure()?.errorText
    // the page aborts requests that it no longer needs
    if (text !== 'net::ERR_ABORTED') note(`request failed: ${request.method()} ${request.url()}: ${text}`)
  })
  page.on('workercreated', ({ client }) => void watchIssues(client, note))
  await watchIssues(await page.createCDPSession(), note)
  return { requests, problems }
}

/** Notes CSP violations and other issues that the browser reports, including earlier ones. */
async function watchIssues(session: CDPSession, note: (problem: string) => void): Promise<void> {
  session.on('Audits.issueAdded', ({ issue: { code, details } }) => note(`${code}: ${JSON.stringify(details)}`))
  await session.send('Audits.enable')
}

/** Resolves after the pending frame and timers of the page, so that its problems are known. */
async function settle(page: Page): Promise<void> {
  if (!page.isClosed())
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))))
}

/**
 * Fails with each violation of axe's rules and the selectors of its elements. With a name, writes
 * screenshots/<name>.png of the visible part.
 */
export async function checkAccessibility(page: Page, name?: string): Promise<void> {
  await settle(page)
  await runAxe(page)
  if (name !== undefined) await screenshot(page, name)
}

/** Fails with each control that is smaller than 24 px, with too little space around it (WCAG 2.2, 2.5.8). */
export async function checkTargets(page: Page): Promise<void> {
  await settle(page)
  await runAxe(page, { runOnly: ['target-size'] })
}

async function screenshot(page: Page, name: string): Promise<void> {
  const directory = join(packageDirectory, 'screenshots')
  mkdirSync(directory, { recursive: true })
  await page.screenshot({ path: join(directory, `${name}.png`) })
}

/** Messages in the browser's console when a server is stopped or drains, for `allow`. */
export const serverGone = [/ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/, /ERR_EMPTY_RESPONSE/, /status of 503/]

/** As in page/api/api.ts. */
export const requestTimeoutMs = 30_000

/** Runs the timers of the page 20 times as fast, but not those of its requests. */
async function speedUp(page: Page): Promise<void> {
  await page.evaluateOnNewDocument((requestTimeoutMs) => {
    const { setTimeout } = window
    const fast = (run: () => void, ms = 0) => setTimeout(run, ms >= requestTimeoutMs ? ms : ms / 20)
    Object.assign(window, { setTimeout: fast })
  }, requestTimeoutMs)
}

/** Also turns transitions off: they would end at some later time. */
async function setColorScheme(page: Page, scheme: ColorScheme): Promise<void> {
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: scheme },
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ])
}
