import { text } from 'node:stream/consumers'
import { expectRules } from '@ingest/checks/sender'
import t from 'tap'
import { noGodot, openGodot } from './godot/open-godot.ts'

t.test('it does what README.md says', { skip: noGodot }, async (t) => {
  const start = await openGodot(t)
  const { stdout, stderr } = await start({ INGEST_CHECKS: '1' })
  const [lines, errors] = await Promise.all([text(stdout), text(stderr)])
  t.ok(lines.endsWith('start after a close: ok\n'), 'all checks ran', { errors })
  for (const line of lines.trimEnd().split('\n')) t.match(line, /: ok$/)
  t.match(errors, 'key must be visible ASCII characters')
  t.notMatch(errors, 'secr', 'no message has the value')
})

t.test('it keeps the rules for clients', { skip: noGodot }, async (t) => {
  // without the rules for a spool: a browser saves user:// later, and not when its page is killed
  const broken = { 'drop-connection': 'the browser decides which connection a request takes' }
  await expectRules(t, { start: await openGodot(t) }, broken)
})
