import type { Scope } from '@ingest/core'
import t from 'tap'
import { authenticateRequest } from '../src/authenticate.ts'
import { parseRawHeaders } from '../src/http/request.ts'
import { headersOf, openTestIngest, projectId } from './batches.ts'

t.test('a key opens its project for its scopes, and for no other', async (t) => {
  const { ingest } = await openTestIngest()
  const all: Scope[] = ['events:write', 'maps:write', 'read']
  for (const scope of all) {
    const { key } = await ingest.keys.create(projectId, { scopes: [scope] })
    const headers = parseRawHeaders(headersOf(key).flat())
    for (const wanted of all) {
      const project = authenticateRequest({ ingest, log: undefined }, headers, wanted)
      if (wanted === scope) t.equal(await project, projectId)
      else await t.rejects(project, { code: 'unauthorized' })
    }
  }
})

t.test('a key store that fails is reported, without the key', async (t) => {
  const told: object[] = []
  const log = { info() {}, warn() {}, error: (fields: object) => void told.push(fields) }
  const { ingest } = await openTestIngest({ authenticate: () => Promise.reject(new Error('gone')) })
  const headers = parseRawHeaders(headersOf('the-key').flat())
  await t.rejects(authenticateRequest({ ingest, log }, headers, 'read'), { code: 'key-store-unavailable' })
  t.match(told, [{ projectId, err: { message: 'gone' } }])
  t.notMatch(JSON.stringify(told), 'the-key')
})
