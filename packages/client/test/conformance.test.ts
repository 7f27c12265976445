import { fileURLToPath } from 'node:url'
import { runConformance, startCommand } from '@ingest/checks/sender'
import t from 'tap'

/** Rules that it still breaks, and why. A rule that it keeps fails the test until its entry is deleted. */
const broken: Record<string, string> = {
  'interim-100': 'undici closes a connection with a 100 that was not asked for',
}

t.test('the sender keeps the rules for clients', async (t) => {
  const program = fileURLToPath(new URL('conformance-program.js', import.meta.url))
  const verdicts = await runConformance({ start: startCommand(process.execPath, [program]), hasSpool: true })
  for (const { id, outcome, expected, seen } of verdicts) {
    t.equal(outcome, Object.hasOwn(broken, id) ? 'failed' : 'passed', `${id}: ${broken[id] ?? expected}`, { seen })
  }
})
