import type { BodyLimit, HttpRequest } from '../http/request.ts'

/** How the bytes of a body are charged to a project. */
export interface BodyCharge {
  /** Charges the declared length before the body is read; throws to refuse it. */
  admit(bytes: number): void | Promise<void>
  /** Charges the bytes beyond the declared length. */
  charge(bytes: number): unknown
}

/**
 * Reads a body and charges the larger of its declared and its inflated length. An undeclared length is admitted as 1.
 *
 * @throws {IngestError} what `admit` and `HttpRequest.readBody` throw.
 */
export async function readChargedBody(
  request: HttpRequest,
  { gzip, limit }: { gzip: boolean; limit: BodyLimit },
  { admit, charge }: BodyCharge,
): Promise<{ body: Uint8Array; chargedBytes: number }> {
  const declaredBytes = Math.max(1, Number(request.headers.values['content-length'] ?? 0))
  await admit(declaredBytes)
  const body = await request.readBody(gzip, limit)
  const chargedBytes = Math.max(declaredBytes, body.length)
  await charge(chargedBytes - declaredBytes)
  return { body, chargedBytes }
}
