import { once } from 'node:events'
import tls, { connect, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { serve } from '../../src/serve.ts'
import { certificateA, certificateB } from '../certificates.ts'
import { requestBytes } from '../edges.ts'
import { openRaw } from '../raw-connection.ts'
import { openTestIngest } from '../test-ingest.ts'

async function openTls(t: Test) {
  const { ingest } = await openTestIngest()
  const warnings: object[] = []
  const log = { debug() {}, info() {}, warn: (fields: object) => void warnings.push(fields), error() {} }
  const served = await serve({ ingest, log, port: 0, closeTimeoutMs: 1, tls: certificateA })
  t.teardown(() => served.close())
  const openConnection = async () => {
    const raw = await openRaw(served.port, { tls: true })
    t.teardown(() => raw.socket.destroy())
    return { ...raw, subject: (raw.socket as TLSSocket).getPeerCertificate().subject.CN }
  }
  return { served, warnings, openConnection }
}

const live = requestBytes({ method: 'GET', path: '/livez' })

t.test('a reloaded certificate is used by new connections, and the others stay open', async (t) => {
  const { served, warnings, openConnection } = await openTls(t)
  t.match(served.url, /^https:\/\/127\.0\.0\.1:\d+$/)
  const first = await openConnection()
  t.equal(first.subject, 'ingest-a.test')
  served.reloadTls(certificateB)
  t.equal((await openConnection()).subject, 'ingest-b.test')
  first.write(live)
  t.equal((await first.read()).status, 200)
  t.strictSame(warnings, [], 'neither certificate expires soon')
})

t.test('a certificate that cannot be used is refused, and the current one stays', async (t) => {
  const { served, openConnection } = await openTls(t)
  const secretLine = String(certificateB.key).split('\n')[2] ?? ''
  for (const [name, material] of Object.entries({
    'the key of another certificate': { cert: certificateA.cert, key: certificateB.key },
    'no certificate': { cert: '', key: certificateA.key },
    'no key': { cert: certificateA.cert, key: '' },
    'a key in place of the certificate': { cert: certificateB.key, key: certificateB.key },
    'a broken chain': { cert: `${certificateB.cert}-----BEGIN CERTIFICATE-----\nAAAA`, key: certificateB.key },
  })) {
    t.throws(() => served.reloadTls(material), { code: 'invalid-argument', message: /TLS certificate and key/ }, name)
    try {
      served.reloadTls(material)
    } catch (error) {
      t.notMatch(String(error), secretLine)
    }
    t.equal((await openConnection()).subject, 'ingest-a.test')
  }
  const { ingest } = await openTestIngest()
  await t.rejects(serve({ ingest, port: 0, tls: { cert: certificateA.cert, key: certificateB.key } }), {
    code: 'invalid-argument',
  })
})

t.test('a server without TLS has no certificate to reload', async (t) => {
  const { ingest } = await openTestIngest()
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  t.throws(() => served.reloadTls(certificateA), { code: 'invalid-argument' })
})

t.test('TLS 1.1 is refused, also after a reload', async (t) => {
  const { served } = await openTls(t)
  const negotiate = async (maxVersion: 'TLSv1.1' | 'TLSv1.2') => {
    const client = connect({
      port: served.port,
      host: '127.0.0.1',
      minVersion: 'TLSv1.1',
      maxVersion,
      ciphers: 'DEFAULT@SECLEVEL=0',
      rejectUnauthorized: false,
    })
    t.teardown(() => client.destroy())
    await once(client, 'secureConnect')
    return client.getProtocol()
  }
  // the minimum of the server is its own, not that of the process
  const { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS } = tls
  t.teardown(() => Object.assign(tls, { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS }))
  Object.assign(tls, { DEFAULT_MIN_VERSION: 'TLSv1.1', DEFAULT_CIPHERS: 'DEFAULT@SECLEVEL=0' })
  for (const material of [certificateA, certificateB]) {
    served.reloadTls(material)
    await t.rejects(negotiate('TLSv1.1'), /protocol version/)
    t.equal(await negotiate('TLSv1.2'), 'TLSv1.2')
  }
})

t.test('a client that does not speak TLS is disconnected, and others are served', async (t) => {
  const { served, openConnection } = await openTls(t)
  const plain = await openRaw(served.port)
  plain.write(live)
  await plain.ended
  const other = await openConnection()
  other.write(live)
  t.equal((await other.read()).status, 200)
})
