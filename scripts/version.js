import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readManifest, root } from './published.js'

// Sets the versions that the changesets ask for, and moves their summaries to CHANGELOG.md, the minor ones first. Without
// a changeset, nothing changes.
//
//   node scripts/version.js

const folder = join(root, '.changeset')
const changesets = readdirSync(folder)
  .filter((file) => file.endsWith('.md'))
  .map((file) => parseChangeset(file, readFileSync(join(folder, file), 'utf8')))

const { status } = spawnSync('npx', ['--yes', '@changesets/cli@2.31.1', 'version'], {
  cwd: root,
  stdio: 'inherit',
  shell: process.platform === 'win32',
})
if (status !== 0) process.exit(1)
if (changesets.length > 0) addToChangelog(readManifest('packages/core').version)

/**
 * @param {string} file
 * @param {string} text
 */
function parseChangeset(file, text) {
  const [, bumps, summary] = /^---\n(.*?)^---\n(.*)$/ms.exec(text.replaceAll('\r\n', '\n')) ?? []
  if (bumps === undefined || !summary?.trim()) throw new Error(`.changeset/${file} has no summary`)
  return { isPatch: !/: (minor|major)$/m.test(bumps), summary: summary.trim() }
}

/** @param {string} version */
function addToChangelog(version) {
  const path = join(root, 'CHANGELOG.md')
  const [head = '', ...releases] = readFileSync(path, 'utf8').split(/^(?=## )/m)
  const items = changesets
    .sort((one, other) => Number(one.isPatch) - Number(other.isPatch))
    // indented, further lines belong to the item
    .map(({ summary }) => `- ${summary.replace(/\n(?=.)/g, '\n  ')}`)
  const sections = [head, `## ${version}\n\n${items.join('\n')}`, ...releases]
  writeFileSync(path, `${sections.map((section) => section.trim()).join('\n\n')}\n`)
}
