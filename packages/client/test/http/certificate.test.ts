import { createIngest, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import t from 'tap'
import { certificateA } from '../../../server/test/certificates.ts'
import { createClient } from '../../src/client.ts'
import { createSender } from '../../src/sender/sender.ts'

t.test('a certificate that cannot be verified is an error that says what to set, not a retry', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const server = await serve({ ingest, port: 0, tls: certificateA })
  t.teardown(() => server.close().then(ingest.close))
  let retries = 0
  const client = createClient({ url: server.url, projectId: 'p', key: 'k', onRetry: () => retries++ })
  const refused = { code: 'unexpected-response', message: /certificate cannot be verified .* set NODE_EXTRA_CA_CERTS/ }
  await t.rejects(client.submitBatch({ events: [] }), refused)
  t.equal(retries, 0)

  const failed = new Promise<unknown>((resolve) => {
    const sender = createSender(client, {
      flushMs: 1,
      onRetry(error) {
        resolve(error)
        sender.close({ deadlineMs: 0 })
      },
      onDrop() {},
    })
    sender.send({})
  })
  t.match(await failed, refused, 'a sender keeps its events, and says so')
  await client.close()
})
