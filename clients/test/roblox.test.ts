import { fileURLToPath } from 'node:url'
import { runConformance, senderRules, startCommand } from '@ingest/checks/sender'
import t from 'tap'

/** Rules that the platform decides on, or the language. */
const foreign: Record<string, string> = {
  endless: 'RequestAsync reads the body',
  redirect: 'RequestAsync has no option against redirects',
  request: 'Luau has neither null in a list nor an empty object',
}

t.test('the sender for Roblox keeps the rules for clients', async (t) => {
  const program = fileURLToPath(new URL('../roblox/test/conformance-program.js', import.meta.url))
  const rules = senderRules.map(({ id }) => id).filter((id) => !Object.hasOwn(foreign, id))
  const verdicts = await runConformance({ start: startCommand(process.execPath, [program]), rules })
  for (const { id, outcome, expected, seen } of verdicts) {
    t.equal(outcome, id.startsWith('spool-') ? 'skipped' : 'passed', `${id}: ${expected}`, { seen })
  }
})
