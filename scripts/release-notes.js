import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readManifest, root } from './published.js'

// Prints the section of the current version in CHANGELOG.md.
//
//   node scripts/release-notes.js

const title = `## ${readManifest('packages/core').version}\n`
const releases = readFileSync(join(root, 'CHANGELOG.md'), 'utf8').split(/^(?=## )/m)
const release = releases.find((each) => each.startsWith(title))
if (release === undefined) throw new Error(`CHANGELOG.md has no "${title.trim()}"`)
console.log(release.slice(title.length).trim())
