import type { WebWorker } from 'puppeteer-core'
import t from 'tap'
import { checkAccessibility, openBrowser } from './browser.ts'
import { startConsole } from './served-console.ts'

const browserTest = openBrowser(t)

browserTest('what is wrong with a page and its worker is noticed', async (t, openPage) => {
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
