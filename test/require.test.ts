import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { manifests, root, textOf } from './repository.ts'

t.test('every entry of every published package can be required: none awaits at its top level', async (t) => {
  const entries = manifests.flatMap(({ directory, name }) => {
    const manifest = join(directory, 'package.json')
    const { exports = {}, private: isPrivate = false } = JSON.parse(textOf(manifest))
    if (isPrivate) return []
    return Object.keys(exports).map((path) => ({ manifest: join(root, manifest), specifier: name + path.slice(1) }))
  })
  t.ok(entries.length > 10)
  const program = `
    const { createRequire } = require('node:module')
    const failures = []
    for (const { manifest, specifier } of ${JSON.stringify(entries)}) {
      try {
        createRequire(manifest)(specifier)
      } catch (error) {
        failures.push(specifier + ': ' + error.code + ' ' + error.message)
      }
    }
    console.log(JSON.stringify(failures))
    process.exit()
  `
  const { NODE_OPTIONS: _, ...env } = process.env
  t.strictSame(JSON.parse(execFileSync(process.execPath, ['-e', program], { env, encoding: 'utf8' })), [])
})
