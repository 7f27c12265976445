import { IngestError, type Publication, type PublishedMap, type PublishOptions } from '@ingest/core'
import { parseJson, stripByteOrderMark } from '@ingest/core/internal'
import { parseQuery } from '../http/query.ts'
import type { BodyLimit, EdgeRequest } from '../http/request.ts'
import { receiveUpload, type UploadContext, type UploadKind } from './upload.ts'

/** The largest body of a publication, unless another is set. */
export const publicationBytesMaxDefault = 1_048_576

/**
 * What takes the publications of maps, in bodies of at most so many bytes.
 *
 * @throws {IngestError} `invalid-argument` for a size that cannot be.
 */
export function createPublicationReceiver(context: UploadContext, bytesMax: number) {
  if (!Number.isSafeInteger(bytesMax) || bytesMax < 1) {
    throw new IngestError('invalid-argument', 'publicationBytesMax is a whole number of bytes from 1.')
  }
  const limit: BodyLimit = { bytesMax, tooLarge: (actual) => publicationTooLarge(bytesMax, actual) }
  const kind: UploadKind<PublishedMap> = {
    limit,
    prepare(request) {
      const options = parsePublishOptions(request)
      return (projectId, body, verification) =>
        // what a publication is, and is not, the Ingest says
        context.ingest.project(projectId).publishMap(parseJson(stripByteOrderMark(body)) as Publication, {
          ...options,
          ...verification,
        })
    },
  }
  const kinds = new Map([['application/json', kind]])
  return (request: EdgeRequest, headers: Record<string, string>) => receiveUpload(context, kinds, request, headers)
}

function publicationTooLarge(limit: number, actual: number): IngestError {
  return new IngestError(
    'body-too-large',
    `A publication holds at most ${limit} bytes, uncompressed: publish a larger map as a manifest and upload its chunks.`,
    { limit, actual },
  )
}

function parsePublishOptions({ query, headers: { values } }: EdgeRequest): PublishOptions {
  const { dryRun = 'false' } = parseQuery(query, ['dryRun'])
  if (dryRun !== 'true' && dryRun !== 'false') throw new IngestError('invalid-argument', 'dryRun is true or false.')
  const options: PublishOptions = { dryRun: dryRun === 'true' }
  const { 'if-none-match': ifNoneMatch, 'if-match': ifMatch } = values
  if (ifNoneMatch !== undefined) {
    if (ifNoneMatch.trim() !== '*')
      throw new IngestError('invalid-argument', 'If-None-Match can be * here, nothing else.')
    options.ifNoneMatch = '*'
  }
  if (ifMatch !== undefined) {
    const [, digest] = /^"(sha256:[0-9a-f]{64})"$/.exec(ifMatch.trim()) ?? []
    if (digest === undefined) {
      throw new IngestError('invalid-argument', 'If-Match can be one "sha256:…" here, nothing else.')
    }
    options.ifMatch = digest
  }
  return options
}
