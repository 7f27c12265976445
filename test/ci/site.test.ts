import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, posix } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { runAxe } from '../../packages/console/scripts/axe.js'
import { launchBrowser, noBrowser } from '../../packages/console/scripts/chromium.js'
import { root } from '../repository.ts'

t.setTimeout(600_000)

const site = join(root, 'site/dist')
/** Not compared: they are for reviewers. */
const screenshots = join(root, 'site/screenshots')
/** Rules that VitePress's theme violates: its search button is named "Search", but also shows a keyboard shortcut. */
const themeRules = { 'label-content-name-mismatch': { enabled: false } }
const mediaTypes: Record<string, string> = { html: 'text/html', js: 'text/javascript', css: 'text/css' }

t.before(async () => {
  const { NODE_OPTIONS: _, ...env } = process.env
  await promisify(execFile)('npx', ['--yes', '--prefer-offline', 'pnpm@10.34.9', 'run', 'docs:build'], {
    cwd: root,
    env,
    maxBuffer: 2 ** 26,
  })
})

t.test('every link within the site leads to a page, and to a heading where it names one', async (t) => {
  const pages = readdirSync(site, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.html'))
  const idsByPage = new Map(pages.map((page) => [page, idsOf(page)]))
  const broken = pages.flatMap((page) =>
    linksOf(page)
      .filter(({ target, heading }) => {
        const ids = idsByPage.get(target)
        return ids === undefined || (heading !== '' && !ids.has(heading))
      })
      .map(({ target, heading }) => `${page} links to ${target}#${heading}`),
  )
  t.ok(pages.length > 50)
  t.match(readFileSync(join(site, 'api/http.html'), 'utf8'), />PUT \/v1\/consumers\/\{name\} </, 'braces are text')
  t.strictSame([...new Set(broken)], [])
})

t.test('the site is read in a browser, without a request to another origin', { skip: noBrowser }, async (t) => {
  const server = createServer((request, response) => {
    const path = decodeURI(new URL(request.url ?? '', 'http://site').pathname)
    const file = fileOf(path)
    try {
      const body = readFileSync(join(site, file))
      response.setHeader('Content-Type', mediaTypes[file.split('.').at(-1) ?? ''] ?? 'application/octet-stream')
      response.end(body)
    } catch {
      response.writeHead(404).end()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  mkdirSync(screenshots, { recursive: true })
  const browser = await launchBrowser()
  t.teardown(() => browser.close())
  const schemes = ['light', 'dark']
  for (const [width, scheme] of [1280, 380].flatMap((width) => schemes.map((scheme) => [width, scheme] as const))) {
    const page = await browser.newPage()
    const problems: string[] = []
    page.on('request', (request) => {
      const url = new URL(request.url())
      if (url.origin !== origin && url.protocol !== 'data:') problems.push(`requests ${url}`)
    })
    page.on('requestfailed', (request) => void problems.push(`fails to load ${request.url()}`))
    page.on('response', (response) => {
      if (response.status() >= 400) problems.push(`${response.status()} for ${response.url()}`)
    })
    page.on('pageerror', (error) => void problems.push(`throws ${error}`))
    await page.setViewport({ width, height: 800 })
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
    for (const path of ['/', '/tutorial', '/is-it-for-you', '/http-api', '/api/http', '/api/@ingest/core/']) {
      await page.goto(origin + path, { waitUntil: 'networkidle0' })
      t.ok(await page.evaluate('document.querySelector("h1").textContent'), `${path} has a title`)
      const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
      t.equal(overflow, 0, `${path} fits into ${width} px`)
      await t.resolves(runAxe(page, { rules: themeRules }), path)
      await page.screenshot({
        path: join(screenshots, `${width}-${scheme}${path.replaceAll('/', '-')}.png`) as `${string}.png`,
      })
    }
    t.equal(await page.evaluate('document.documentElement.classList.contains("dark")'), scheme === 'dark')
    await page.goto(`${origin}/`, { waitUntil: 'networkidle0' })
    for (const [words, found] of searches) {
      await page.keyboard.press('/')
      await page.waitForSelector('input.search-input', { visible: true })
      await page.type('input.search-input', words)
      await page.waitForFunction(
        `Array.from(document.querySelectorAll('a.result')).slice(0, 5).some((link) => link.pathname === '${found}')`,
      )
      await page.keyboard.press('Escape')
      await page.waitForSelector('input.search-input', { hidden: true })
    }
    t.strictSame(problems, [])
    await page.close()
  }
})

/** Search phrases, each with the page that the results must include. */
const searches = [
  ['GDPR', '/erase'],
  ['delete a player', '/erase'],
  ['players to machines', '/capacity'],
  ['upgrade', '/serve'],
  ['a key leaked', '/keys'],
  ['query your events', '/queries'],
  ['the disk is full', '/troubleshooting'],
  ['moving from a directory to PostgreSQL', '/postgres'],
] as const

/** The file of a path, as a web server finds it. */
function fileOf(path: string): string {
  if (path.endsWith('/')) return `${path}index.html`.slice(1)
  return posix.extname(path) === '' || path.startsWith('/api/') ? `${path}.html`.slice(1) : path.slice(1)
}

function idsOf(page: string): Set<string> {
  const html = readFileSync(join(site, page), 'utf8')
  return new Set(Array.from(html.matchAll(/ id="([^"]+)"/g), ([, id = '']) => id))
}

function linksOf(page: string): { target: string; heading: string }[] {
  const html = readFileSync(join(site, page), 'utf8')
  const links = new Set(Array.from(html.matchAll(/<a [^>]*?href="([^"]+)"/g), ([, href = '']) => href))
  // the sites of releases are not part of this one
  const within = [...links].filter((href) => !href.startsWith('/../'))
  return within.flatMap((href) => {
    const { origin, pathname, hash } = new URL(href.replaceAll('&amp;', '&'), `http://site/${page}`)
    if (origin !== 'http://site') return []
    return [
      {
        target: fileOf(decodeURI(pathname)).replace(/\.html\.html$/, '.html'),
        heading: decodeURIComponent(hash.slice(1)),
      },
    ]
  })
}
