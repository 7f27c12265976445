import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { json, openScriptedServer } from './scripted-server.ts'

const run = promisify(execFile)
const require = createRequire(import.meta.url)
const packageDirectory = fileURLToPath(new URL('..', import.meta.url))
const { NODE_OPTIONS: _, ...env } = process.env

const program = `
  const client = createClient({ url: process.argv[2], projectId: 'game-1', key: 'ik_any' })
  client.submitBatch({ events: [] }).then((result) => {
    console.log(JSON.stringify(result))
    return client.close()
  })
`

t.test('the client runs when it is required, and in a bundle of either module system', async (t) => {
  const result = { accepted: 0, duplicates: 0, rejected: [] }
  const { url } = await openScriptedServer(t, json(202, result))
  const directory = t.testdir()

  const required = `const { createClient } = require('@ingest/client')\n${program}`
  const { stdout } = await run(process.execPath, ['-e', required, 'program', url], { cwd: packageDirectory, env })
  t.strictSame(JSON.parse(stdout), result, 'required')

  // the bundler that tsup runs
  const esbuild = createRequire(require.resolve('tsup'))('esbuild')
  for (const format of ['cjs', 'esm']) {
    const outfile = join(directory, format === 'cjs' ? 'bundle.cjs' : 'bundle.mjs')
    await esbuild.build({
      stdin: { contents: `import { createClient } from '@ingest/client'\n${program}`, resolveDir: packageDirectory },
      ...{ bundle: true, platform: 'node', target: 'node20', format, outfile, logLevel: 'silent' },
    })
    // in a directory without node_modules
    const { stdout } = await run(process.execPath, [outfile, url], { cwd: directory, env })
    t.strictSame(JSON.parse(stdout), result, format)
  }
})
