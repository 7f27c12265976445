import t from 'tap'
import { createClientAddress, type TrustProxy } from '../../src/http/client-address.ts'
import { type HttpRequest, parseRawHeaders } from '../../src/http/request.ts'

function addressOf(trustProxy: TrustProxy | undefined, remoteAddress: string | undefined, ...forwarded: string[]) {
  const headers = parseRawHeaders(forwarded.flatMap((value) => ['X-Forwarded-For', value]))
  const request = { headers, socket: { remoteAddress } } as unknown as HttpRequest
  return createClientAddress(trustProxy)(request)
}

t.test('without trusted proxies, the client is the other end of the connection', async (t) => {
  t.equal(addressOf(undefined, '192.0.2.1', '198.51.100.7'), '192.0.2.1')
  t.equal(addressOf(0, '::ffff:192.0.2.1', '198.51.100.7'), '192.0.2.1')
  t.equal(addressOf([], '192.0.2.1', '198.51.100.7'), '192.0.2.1')
})

t.test('a number of proxies counts from the server, so entries of the client are not believed', async (t) => {
  t.equal(addressOf(1, '10.0.0.1', '203.0.113.9, 198.51.100.7'), '198.51.100.7')
  t.equal(addressOf(2, '10.0.0.1', '203.0.113.9', '198.51.100.7, 10.0.0.2'), '198.51.100.7')
  t.equal(addressOf(9, '10.0.0.1', '198.51.100.7'), '198.51.100.7')
  t.equal(addressOf(1, '10.0.0.1'), '10.0.0.1')
})

t.test('addresses and blocks are followed up to the first one that is not trusted', async (t) => {
  const trusted = ['10.0.0.0/8', '2001:db8::/32', '192.0.2.1']
  t.equal(addressOf(trusted, '::ffff:10.1.2.3', '203.0.113.9, 198.51.100.7, 192.0.2.1'), '198.51.100.7')
  t.equal(addressOf(trusted, '2001:db8::1', '2001:db9::5'), '2001:db9::5')
  t.equal(addressOf(trusted, '192.0.2.2', '203.0.113.9'), '192.0.2.2')
})

t.test('a Unix socket is trusted once any proxy is', async (t) => {
  t.equal(addressOf(['10.0.0.1'], undefined, '198.51.100.7'), '198.51.100.7')
  t.equal(addressOf(1, undefined, '198.51.100.7'), '198.51.100.7')
  t.equal(addressOf(undefined, undefined, '198.51.100.7'), undefined)
})

t.test('ports and brackets are left out, and what is no address ends the list', async (t) => {
  t.equal(addressOf(1, '10.0.0.1', '198.51.100.7:51234'), '198.51.100.7')
  t.equal(addressOf(1, '10.0.0.1', '[2001:db8::7]:51234'), '2001:db8::7')
  t.equal(addressOf(1, '10.0.0.1', '"2001:db8::7"'), '10.0.0.1')
  for (const entry of ['unknown', '', '<script>', '1.2.3', 'a'.repeat(9000)])
    t.equal(addressOf(2, '10.0.0.1', `198.51.100.7, ${entry}`), '10.0.0.1')
})

t.test('what is no proxy is refused', async (t) => {
  for (const wrong of [-1, 1.5, Number.NaN, ['proxy.example.com'], ['10.0.0.0/33'], ['10.0.0.0/'], ['::/129'], ['']])
    t.throws(() => createClientAddress(wrong), { code: 'invalid-argument' }, String(wrong))
})
