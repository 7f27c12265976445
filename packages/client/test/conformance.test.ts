import { fileURLToPath } from 'node:url'
import { runConformance, startCommand } from '@ingest/checks/sender'
import t from 'tap'

t.test('the sender keeps the rules for clients', async (t) => {
  const program = fileURLToPath(new URL('conformance-program.js', import.meta.url))
  const verdicts = await runConformance({ start: startCommand(process.execPath, [program]), hasSpool: true })
  for (const { id, outcome, expected, seen } of verdicts) t.equal(outcome, 'passed', `${id}: ${expected}`, { seen })
})
