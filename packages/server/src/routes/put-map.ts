import { IngestError, type Publication, type PublishOptions, type PublishOutcome } from '@ingest/core'
import { trustParsed } from '@ingest/core/internal'
import { checkBodyHeaders } from '../http/body-headers.ts'
import { parseQuery } from '../http/query.ts'
import type { BodyLimit, HttpRequest } from '../http/request.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { RouteContext } from '../route.ts'
import { parseUpload } from '../uploads/upload-parser.ts'
import type { Body, PublishedMap } from './bodies.ts'
import { storeUpload } from './store-upload.ts'

/** The largest body of a publication. */
export const publicationBytesMax = 1_048_576

const limit: BodyLimit = {
  bytesMax: publicationBytesMax,
  tooLarge(actual) {
    const message = `A publication holds at most ${publicationBytesMax} bytes, uncompressed: publish a larger map as a manifest and upload its chunks.`
    return new IngestError('body-too-large', message, { limit: publicationBytesMax, actual })
  },
}
const kinds = new Map([['application/json', { limit }]])

export const statusByOutcome: Readonly<Record<PublishOutcome, number>> = {
  created: 201,
  replaced: 200,
  unchanged: 200,
  incomplete: 202,
}

/**
 * `PUT /v1/maps`: publishes a map, or with `dryRun` returns what would happen.
 *
 * @throws {IngestError}
 */
export async function putMap(context: RouteContext): Promise<HttpResponse> {
  const { request, ingest } = context
  const { gzip } = checkBodyHeaders(request.headers, kinds)
  const options = parsePublishOptions(request)
  const published = await storeUpload(context, { gzip, limit, isJson: true }, async (body, verification) => {
    const publication = trustParsed(await parseUpload(ingest.projectId, 'publication', body))
    return ingest.publishMap(publication as unknown as Publication, { ...options, ...verification })
  })
  return jsonResponse<Body<typeof PublishedMap>>(statusByOutcome[published.outcome], published)
}

function parsePublishOptions({ query, headers: { values } }: HttpRequest): PublishOptions {
  const { dryRun = 'false' } = parseQuery(query, ['dryRun'])
  if (dryRun !== 'true' && dryRun !== 'false')
    throw new IngestError('invalid-argument', 'dryRun must be true or false.')
  const options: PublishOptions = { dryRun: dryRun === 'true' }
  const { 'if-none-match': ifNoneMatch, 'if-match': ifMatch } = values
  if (ifNoneMatch !== undefined) {
    if (ifNoneMatch.trim() !== '*') throw new IngestError('invalid-argument', 'If-None-Match must be *.')
    options.ifNoneMatch = '*'
  }
  if (ifMatch !== undefined) {
    const [, digest] = /^"(sha256:[0-9a-f]{64})"$/.exec(ifMatch.trim()) ?? []
    if (digest === undefined) {
      throw new IngestError('invalid-argument', 'If-Match must be one entity tag: "sha256:…".')
    }
    options.ifMatch = digest
  }
  return options
}
