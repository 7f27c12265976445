import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readManifest, root } from './published.js'

// Renames the npm scope of the packages in every file that git tracks; the current one is in the name of packages/core.
// Then `pnpm install` links the packages, `pnpm run format` sorts the imports, and `npm run build` builds them.
//
//   node scripts/rename-scope.js @another

const [before = ''] = readManifest('packages/core').name.split('/')
const after = process.argv[2] ?? ''
if (!/^@[a-z\d][a-z\d._-]*$/.test(after)) throw new Error('usage: node scripts/rename-scope.js @another')

const files = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' }).split('\0')
const texts = files.filter((file) => !/^$|\.png$/.test(file)).map((file) => join(root, file))
const changed = texts.filter((file) => {
  const text = readFileSync(file, 'utf8')
  const renamed = text.replaceAll(`${before}/`, `${after}/`)
  if (renamed !== text) writeFileSync(file, renamed)
  return renamed !== text
})
console.log(`${before} is ${after} in ${changed.length} files`)
