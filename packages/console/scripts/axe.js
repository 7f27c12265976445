import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/**
 * Throws an error with each violation of axe's rules and the selectors of its elements.
 *
 * @param {import('puppeteer-core').Page} page
 * @param {import('axe-core').RunOptions} [options]
 */
export async function runAxe(page, options) {
  // scripts of the debugger are not subject to the page's CSP
  if (await page.evaluate('typeof axe === "undefined"')) await page.evaluate(source)
  // otherwise axe would also describe each element that passes
  const run = `axe.run(${JSON.stringify({ ...options, resultTypes: ['violations'] })})`
  const violations = /** @type {import('axe-core').AxeResults['violations']} */ (
    await page.evaluate(`${run}.then(({ violations }) => violations)`)
  )
  const lines = violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(' ')}: ${failureSummary}`),
  )
  if (lines.length > 0) throw new Error(`axe finds:\n${lines.join('\n')}`)
}
