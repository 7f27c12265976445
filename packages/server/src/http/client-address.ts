import { BlockList, isIP } from 'node:net'
import { IngestError } from '@ingest/core'
import type { RequestHead } from './request.ts'

/** The number of proxies in front of the server, or their addresses and CIDR blocks. */
export type TrustProxy = number | readonly string[]

/** The address of the client of a request; undefined if it is not known. */
export type ClientAddress = (request: RequestHead) => string | undefined

/**
 * Follows `X-Forwarded-For` from the connection back through trusted proxies. Entries before the first untrusted address
 * may be made up by the client. A Unix socket is trusted: the mode of its file says who may connect.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function createClientAddress(trustProxy: TrustProxy = 0): ClientAddress {
  const isTrusted = typeof trustProxy === 'number' ? trustHops(trustProxy) : trustAddresses(trustProxy)
  return ({ socket, headers }) => {
    let address = normalize(socket?.remoteAddress ?? '')
    const forwarded = headers.values['x-forwarded-for']?.split(',').reverse() ?? []
    for (const [hop, entry] of forwarded.entries()) {
      const next = normalize(entry)
      if (next === undefined || !isTrusted(address, hop)) break
      address = next
    }
    return address
  }
}

type IsTrusted = (address: string | undefined, hop: number) => boolean

function trustHops(hops: number): IsTrusted {
  if (Number.isSafeInteger(hops) && hops >= 0) return (_address, hop) => hop < hops
  throw new IngestError('invalid-argument', 'trustProxy must be a number of proxies, or a list of their addresses.')
}

function trustAddresses(addresses: readonly string[]): IsTrusted {
  const trusted = new BlockList()
  for (const text of addresses) {
    const [, address = '', prefix] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
    const version = isIP(address)
    const bits = version === 6 ? 128 : 32
    if (version === 0 || Number(prefix ?? bits) > bits) {
      throw new IngestError(
        'invalid-argument',
        `trustProxy takes addresses and CIDR blocks, not ${JSON.stringify(text)}.`,
      )
    }
    trusted.addSubnet(address, Number(prefix ?? bits), version === 6 ? 'ipv6' : 'ipv4')
  }
  return (address) => address === undefined || trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/** An IP address without port and brackets, as some proxies write it, and IPv4 in its own form. */
function normalize(text: string): string | undefined {
  const [, bracketed, plain = text.trim()] = /^\s*(?:\[([^\]]*)\](?::\d+)?|([\d.]+)(?::\d+)?)\s*$/.exec(text) ?? []
  const address = (bracketed ?? plain).replace(/^::ffff:(?=\d+\.)/i, '')
  return isIP(address) === 0 ? undefined : address
}
