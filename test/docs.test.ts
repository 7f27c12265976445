import { execFile } from 'node:child_process'
import { join, posix } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { sidebar } from '../site/.vitepress/sidebar.js'
import { slugOf } from '../site/.vitepress/slug.js'
import { files, root, textOf } from './repository.ts'

const pages = files.filter((file) => file.endsWith('.md') && !file.startsWith('.changeset/'))

t.test('every relative link leads to a file, and to a heading where it names one', async (t) => {
  const links = pages.flatMap((page) => linksOf(page).map((link) => ({ page, link })))
  t.not(links.length, 0)
  const broken = links.filter(({ page, link }) => !leadsSomewhere(page, link))
  t.strictSame(
    broken.map(({ page, link }) => `${page} links to ${link}`),
    [],
  )
})

t.test('every page is in the sidebar of the site once', async (t) => {
  const listed = sidebar.flatMap(({ items }) => items.map(({ page }) => page))
  const generated = /^docs\/api\//
  t.strictSame(
    listed.filter((page) => !generated.test(page)).sort(),
    pages.filter((page) => !page.startsWith('packages/cli/test/')),
  )
})

t.test('a code block equals the file that it names', async (t) => {
  t.strictSame(staleBlocks('<!-- from: LICENSE -->\n\n```\nMIT License\n```\n'), [])
  t.strictSame(staleBlocks('<!-- from: LICENSE -->\n```\nMIT Licence\n```\n'), ['LICENSE'])
  t.strictSame(staleBlocks('<!-- from: LICENSE -->\nMIT License\n'), ['LICENSE'])
  t.strictSame(
    pages.flatMap((page) => staleBlocks(textOf(page)).map((from) => `${page} shows an outdated ${from}`)),
    [],
  )
})

t.test('no page installs or runs the package `ingest`, which is not ours', async (t) => {
  const foreign = /\b(?:npx|bunx|dlx|npm (?:i|install|exec)|(?:pnpm|yarn|bun) add)(?: -\S*)* ingest(?![\w/-])/
  t.match('$ npx --no -- ingest send', foreign)
  t.notMatch('npx --package @ingest/cli ingest send', foreign)
  const texts = files.filter((file) => !file.endsWith('docs.test.ts'))
  const lines = texts.flatMap((file) =>
    textOf(file)
      .split('\n')
      .map((line) => `${file}: ${line}`),
  )
  t.strictSame(
    lines.filter((line) => foreign.test(line)),
    [],
  )
})

t.test('the first program of the README runs, and prints what its comments say', async (t) => {
  const [, program = ''] = /^```js\n(.*?)^```$/ms.exec(textOf('README.md')) ?? []
  const printed = Array.from(program.matchAll(/^console\.log\(.*\/\/ (.+)$/gm), ([, comment]) => comment)
  t.not(printed.length, 0)
  const directory = t.testdir({
    'program.mjs': program,
    node_modules: t.fixture('symlink', join(root, 'examples/node_modules')),
  })
  const { NODE_OPTIONS: _, ...env } = process.env
  const { stdout } = await promisify(execFile)(process.execPath, ['program.mjs'], { cwd: directory, env })
  t.strictSame(stdout.trimEnd().split('\n'), printed)
})

function linksOf(page: string): string[] {
  const text = textOf(page).replace(/^(`{3,}).*?^\1/gms, '')
  const targets = Array.from(
    text.matchAll(/\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)/gm),
    ([, inline, below]) => inline ?? below ?? '',
  )
  return targets.filter((target) => !/^[a-z]+:/.test(target))
}

function leadsSomewhere(page: string, link: string): boolean {
  const [path = '', heading] = link.split('#')
  const target = path === '' ? page : posix.join(posix.dirname(page), path).replace(/\/$/, '')
  if (!files.includes(target)) return heading === undefined && files.some((file) => file.startsWith(`${target}/`))
  return heading === undefined || headingsOf(target).includes(heading)
}

/** The headings of a page, as they are named in links to them. */
function headingsOf(page: string): string[] {
  return Array.from(textOf(page).matchAll(/^#+ (.+)$/gm), ([, heading = '']) => slugOf(heading))
}

/** The files that a page shows a part of, in a fenced block, which they do not hold word for word. */
function staleBlocks(text: string): string[] {
  return Array.from(text.matchAll(/^<!-- from: (\S+) -->\n(?:\n*```\w*\n(.*?)^```$)?/gms))
    .filter(([, from = '', block]) => {
      return block === undefined || !files.includes(from) || !`\n${textOf(from)}`.includes(`\n${block}`)
    })
    .map(([, from = '']) => from)
}
