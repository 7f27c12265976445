import { fileURLToPath } from 'node:url'
import { expectRules, startCommand } from '@ingest/checks/sender'
import t from 'tap'

t.test('the sender keeps the rules for clients', async (t) => {
  const program = fileURLToPath(new URL('conformance-program.js', import.meta.url))
  await expectRules(
    t,
    { start: startCommand(process.execPath, [program]), hasSpool: true },
    { 'interim-100': 'undici closes a connection with a 100 that was not asked for' },
  )
})
