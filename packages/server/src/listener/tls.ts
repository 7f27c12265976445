import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import { IngestError } from '@ingest/core'
import type { Log } from '../log.ts'

/** A certificate and its private key, in PEM. */
export interface TlsMaterial {
  /** The server's certificate, followed by intermediate certificates. */
  cert: string | Buffer
  /** Its private key, unencrypted. */
  key: string | Buffer
}

/** How long a TLS handshake may take. */
export const handshakeTimeoutMs = 10_000
/** Certificates that expire within this time are logged as warnings. */
const expiryWarningMs = 14 * 24 * 3_600_000

/**
 * Checks the material and warns if it expires soon.
 *
 * @throws {IngestError} `invalid-argument` for unusable material
 */
export function secureContext({ cert, key }: TlsMaterial, log: Log | undefined): SecureContextOptions {
  const options: SecureContextOptions = { cert, key, minVersion: 'TLSv1.2' }
  let expiresAt: Date
  try {
    const certificate = new X509Certificate(cert)
    expiresAt = new Date(certificate.validTo)
    if (!certificate.checkPrivateKey(createPrivateKey(key))) throw new Error('the key is that of another certificate')
    createSecureContext(options)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new IngestError('invalid-argument', `The TLS certificate and key cannot be used: ${reason}.`, {
      cause: error,
    })
  }
  const isEnding = expiresAt.getTime() < Date.now() + expiryWarningMs
  if (isEnding) log?.warn({ expiresAt: expiresAt.toISOString() }, 'the TLS certificate expires soon or has expired')
  return options
}
