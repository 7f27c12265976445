/**
 * The token of an `Authorization` header (RFC 6750 section 2.1): undefined without one, as for `Basic`; null for one that
 * is malformed or repeated.
 */
export function bearerToken(authorization: string | undefined): string | null | undefined {
  if (authorization === undefined || !/(?:^|,)\s*bearer(?:\s|,|$)/i.test(authorization)) return undefined
  return /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization.trim())?.[1] ?? null
}
