import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { sidebar } from './sidebar.js'
import { slugOf } from './slug.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const { version, repository } = JSON.parse(readFileSync(`${root}packages/core/package.json`, 'utf8'))
const isReleased = !readdirSync(`${root}.changeset`).some((file) => file.endsWith('.md'))
const source = `${repository.url.replace(/^git\+|\.git$/g, '')}/tree/${isReleased ? `v${version}` : 'main'}/`
const changes = readFileSync(`${root}CHANGELOG.md`, 'utf8')
const releases = Array.from(changes.matchAll(/^## (\d\S*)/gm), ([, release]) => release)
const pages = new Set(sidebar.flatMap(({ items }) => items.map(({ page }) => page)))

/** Resolves Vue for pages outside of this folder. @type {import('vitepress').Plugin} */
const dependencies = {
  name: 'dependencies',
  enforce: 'pre',
  resolveId(id, _importer, options) {
    if (!/^vue(\/|$)/.test(id)) return
    return this.resolve(id, fileURLToPath(import.meta.resolve('vitepress')), { ...options, skipSelf: true })
  },
}

export default defineConfig({
  srcDir: '..',
  srcExclude: ['packages/*/test/**'],
  outDir: 'dist',
  cacheDir: 'node_modules/.cache',
  rewrites: pathOf,
  cleanUrls: true,
  title: 'Ingest',
  description: 'Idempotent event ingestion for game backends.',
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: slugOf },
    // as on GitHub, braces at the end of a heading are text
    attrs: { disable: true },
    config: (markdown) =>
      void markdown.core.ruler.push('repository-links', ({ tokens, env }) => moveLinks(tokens, env)),
  },
  themeConfig: {
    nav: [
      { text: 'Tutorial', link: '/tutorial' },
      { text: 'API', link: '/api/' },
      { text: 'OpenAPI', link: '/api/http' },
      {
        text: isReleased ? version : 'Unreleased',
        items: [
          { text: 'Changes', link: '/changelog' },
          // each release has a site at /<release>/; `..` leaves the base of this one
          ...releases.map((release) => ({ text: release, link: `/../${release}/`, target: '_self' })),
        ],
      },
    ],
    sidebar: sidebar.map(({ text, items }) => ({
      text,
      items: items.map(({ text, page }) => ({ text, link: `/${addressOf(page)}` })),
    })),
    outline: [2, 3],
    search: { provider: 'local' },
  },
  vite: {
    plugins: [dependencies],
  },
})

/** @param {string} page path in the repository */
function pathOf(page) {
  const path = page.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
  return path.startsWith('api/') ? path : path.toLowerCase()
}

/** @param {string} page path in the repository */
function addressOf(page) {
  return pathOf(page).replace(/(^|\/)index\.md$|\.md$/, '$1')
}

/**
 * Relative links lead to pages of the site, or to the repository where the target is no page.
 *
 * @param {import('markdown-it').Token[]} tokens
 * @param {{ path: string, realPath?: string }} env
 */
function moveLinks(tokens, env) {
  const page = posix.relative(root, env.realPath ?? env.path)
  for (const token of tokens.flatMap(({ children }) => children ?? [])) {
    const href = token.type === 'link_open' ? (token.attrGet('href') ?? '') : ''
    if (href === '' || /^([a-z]+:|#|\/)/.test(href)) continue
    const [path = '', heading] = href.split('#')
    const target = posix.join(posix.dirname(page), decodeURI(path))
    const hash = heading === undefined ? '' : `#${heading}`
    token.attrSet('href', isPage(target) ? `/${addressOf(target)}${hash}` : `${source}${encodeURI(target)}${hash}`)
  }
}

/** @param {string} path in the repository */
function isPage(path) {
  return pages.has(path) || path.startsWith('docs/api/')
}
