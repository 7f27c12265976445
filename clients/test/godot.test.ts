import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { runConformance } from '@ingest/checks/sender'
import t from 'tap'
import { noGodot, openGodot } from './godot/open-godot.ts'

const sender = fileURLToPath(new URL('../godot/addons/ingest/ingest_sender.gd', import.meta.url))

t.test('the sender for Godot has at most 400 lines', async (t) => {
  const lines = readFileSync(sender, 'utf8').trimEnd().split('\n')
  t.ok(lines.length <= 400, `${lines.length} lines`)
})

t.test('it keeps the rules for clients', { skip: noGodot }, async (t) => {
  // without the rules for a spool: a browser saves user:// later, and not when its page is killed
  const verdicts = await runConformance({ start: await openGodot(t) })
  for (const { id, outcome, expected, seen } of verdicts) t.not(outcome, 'failed', `${id}: ${expected}`, { seen })
})
