import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { files, root } from './repository.ts'

const served = 'a batch was accepted, the same again were duplicates, and /hello responded beside them'

/** What each example says at the end, besides ending with 0: it asserts everything else itself. */
const lastWords: Record<string, string> = {
  'embedded-express.js': served,
  'embedded-fastify.js': served,
  'embedded-http.js': served,
  'embedded-schemas.js': 'an event was rejected: /level Must be >= 1.',
  'fetch-hono.js': served,
  'follow-events.js': 'each event was copied once, by 3 processes of which each was killed',
  'nightly-export.js': 'three days were exported, each event once; today is exported after it ends',
  'publish-map.js': 'two builds were published, and a frozen one stayed as it was',
  'quickstart.js': 'The server drained and stopped.',
  'sender-life.js': 'what was sent while the server was away came with the next start, once and in order',
}

if (!existsSync(join(root, 'packages/cli/dist/bin.js'))) throw new Error('nothing is built: run `pnpm run build` first')

/** Files that examples import. */
const parts = ['examples/check.js', 'examples/demo-traffic.js', 'examples/sqlite-store.js']

t.test('every example is run here', async (t) => {
  const examples = files.filter((file) => /^examples\/[^/]+\.js$/.test(file) && !parts.includes(file))
  t.strictSame(
    examples,
    Object.keys(lastWords).map((name) => `examples/${name}`),
  )
})

for (const [name, words] of Object.entries(lastWords)) {
  t.test(`${name} works`, async (t) => {
    const { exit, output, errors } = start([name])
    t.strictSame(await exit, [0, null])
    // it shows a sender that ends while its server is away
    if (name === 'sender-life.js')
      t.match(await errors, /Warning: The sender of demo ended with 1 unsent event: 1 kept in /)
    else t.equal(await errors, '')
    t.ok((await output).trimEnd().endsWith(words))
  })
}

t.test('a failing quickstart prints its reason in one line', async (t) => {
  const { exit, errors } = start(['quickstart.js', join(root, 'package.json')])
  t.strictSame(await exit, [1, null])
  t.match(await errors, /^quickstart failed: .+\n$/)
})

function start([name = '', ...args]: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [join(root, 'examples', name), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env, _TAPJS_PROCESSINFO_COVERAGE_: '0' },
  })
  return { child, exit: once(child, 'exit'), output: text(child.stdout), errors: text(child.stderr) }
}
