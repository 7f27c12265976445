import {
  IngestError,
  type Publication,
  PublicationSchema,
  type PublishOptions,
  type PublishOutcome,
} from '@ingest/core'
import { trustParsed } from '@ingest/core/internal'
import { PublishedMap, toWire } from '@ingest/core/wire'
import { checkBodyHeaders, limitBody } from '../http/body.ts'
import { parseQuery } from '../http/query.ts'
import type { HttpRequest } from '../http/request.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import { parseUpload } from '../uploads/upload-parser.ts'
import { comma, header, json, query, sampleDigest, samplePublished } from './operation.ts'
import type { ProjectRoute, RouteContext } from './route.ts'
import { storeUpload } from './store-upload.ts'

/** Maximum bytes of the body of a publication. */
export const publicationBytesMax = 1_048_576

const limit = limitBody(
  publicationBytesMax,
  'body-too-large',
  `A publication holds at most ${publicationBytesMax} bytes, uncompressed: publish a larger map as a manifest and upload its chunks.`,
)
const kinds = new Map([['application/json', { limit }]])

const statusByOutcome: Readonly<Record<PublishOutcome, number>> = {
  created: 201,
  replaced: 200,
  unchanged: 200,
  incomplete: 202,
}

export const putMap: ProjectRoute = {
  method: 'PUT',
  path: '/v1/maps',
  scope: 'maps:write',
  concurrency: 'uploads',
  budget: 'maps',
  operation: {
    operationId: 'publishMap',
    tag: 'maps',
    summary: 'publish a map',
    description: `Idempotent: repeat it at any time to see the state. At most ${comma(publicationBytesMax)} bytes, also after decompression. See [Maps](maps.md).`,
    parameters: [
      query('dryRun', { enum: ['true', 'false'], default: 'false' }, 'return the response without writing'),
      header('If-None-Match', { const: '*' }, 'publish only if no map is complete'),
      header('If-Match', { type: 'string', pattern: '^"sha256:[0-9a-f]{64}"$' }, 'publish only over this map'),
    ],
    body: {
      'application/json': {
        schema: PublicationSchema,
        example: { placeId: '920587237', buildId: '2026.11.20', map: { parts: [{ z: 1, a: [1, 2.5] }] } },
      },
    },
    responses: {
      200: {
        description: '`replaced` another complete map, or `unchanged`: it is already complete, frozen or not.',
        content: json(PublishedMap, { ...samplePublished, outcome: 'unchanged' }),
      },
      201: {
        description: '`created`: the first complete map of this place and build.',
        content: json(PublishedMap, samplePublished),
      },
      202: {
        description: '`incomplete`: the manifest is recorded; upload the chunks in `missing`.',
        content: json(PublishedMap, {
          ...samplePublished,
          outcome: 'incomplete',
          state: 'incomplete',
          missing: [sampleDigest],
          publishedAt: null,
        }),
      },
    },
    codes: [
      'invalid-publication',
      'digest-mismatch',
      'map-frozen',
      'precondition-failed',
      'body-too-large',
      'map-quota-exceeded',
    ],
  },
  handle: publish,
}

async function publish(context: RouteContext): Promise<HttpResponse> {
  const { request, ingest } = context
  const { gzip } = checkBodyHeaders(request.headers, kinds)
  const options = parsePublishOptions(request)
  const published = await storeUpload(context, { gzip, limit, isJson: true }, async (body, verification) => {
    const publication = trustParsed(await parseUpload(ingest.projectId, 'publication', body, verification))
    return ingest.publishMap(publication as unknown as Publication, { ...options, ...verification })
  })
  return jsonResponse(statusByOutcome[published.outcome], toWire(PublishedMap, published))
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
