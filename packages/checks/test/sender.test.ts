import { readFileSync } from 'node:fs'
import t from 'tap'
import { senderRules } from '../src/sender.ts'

t.test('every rule for senders stands in the documentation', async (t) => {
  const text = ['http-api', 'senders']
    .map((page) => readFileSync(new URL(`../../../../docs/${page}.md`, import.meta.url), 'utf8'))
    .join('\n')
    // a row of a table is read as `status: what to do`
    .replace(/^\| *(.*?) *\| *(.*?) *\|$/gm, '$1: $2')
    .replace(/\s+/g, ' ')
  t.strictSame(
    senderRules.filter(({ rule }) => !text.includes(rule)).map(({ rule }) => rule),
    [],
  )
  const ids = senderRules.map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length)
})
