import { fileURLToPath } from 'node:url'
import { expectRules, type Rule, senderRules, startCommand } from '@ingest/checks/sender'
import t from 'tap'

/** Rules that the platform decides on, or the language. */
const foreign: Record<string, string> = {
  'drop-connection': 'RequestAsync decides on connections',
  endless: 'RequestAsync reads the body',
  redirect: 'RequestAsync has no option against redirects',
  request: 'Luau has neither null in a list nor an empty object',
}

t.test('the sender for Roblox keeps the rules for clients', async (t) => {
  const program = fileURLToPath(new URL('../roblox/test/conformance-program.js', import.meta.url))
  const isOwn = ({ id, needsSpool }: Rule) => !needsSpool && !Object.hasOwn(foreign, id)
  const rules = senderRules.filter(isOwn).map(({ id }) => id)
  await expectRules(t, { start: startCommand(process.execPath, [program]), rules })
})
