import { type FailureKind, type Problem, RequestError } from './request-error.ts'

// What counts as a response of an Ingest server. A proxy in between may respond itself, with any status and body.

/** What a JSON body must have, by the last segment of its path. */
const isBody: Readonly<Record<string, (body: Record<string, unknown>) => boolean>> = {
  readyz: ({ status }) => status === 'ready',
  stats: ({ events }) => typeof events === 'number',
  activity: ({ steps }) => Array.isArray(steps),
  rejected: ({ groups }) => Array.isArray(groups),
  builds: ({ builds }) => Array.isArray(builds),
  consumers: ({ consumers }) => Array.isArray(consumers),
  maps: ({ maps, digest }) => Array.isArray(maps) || typeof digest === 'string',
}

/** @throws {RequestError} unless the response is a success with a body of this media type */
export async function checkResponse(response: Response, mediaType: string): Promise<void> {
  if (!response.ok) throw await toRequestError(response)
  if (essenceOf(response.headers.get('Content-Type')) === essenceOf(mediaType)) return
  response.body?.cancel().catch(() => {})
  throw foreignResponse(response)
}

/** @throws {RequestError} `foreign` unless it is the body of this path */
export function parseBody<Body>(path: string, text: string): Body {
  const body = parseObject(text)
  if (!isBody[path.slice(path.lastIndexOf('/') + 1)]?.(body)) throw foreignResponse()
  return body as Body
}

/** The members of other JSON are missing. @throws {RequestError} `foreign` if the text is not JSON */
export function parseObject(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text))
  } catch {
    throw foreignResponse()
  }
}

export function foreignResponse(response?: Response): RequestError {
  const seen = response && ` (${response.status ? `status ${response.status}` : 'a redirect'})`
  return new RequestError(
    'foreign',
    `This response is not from an Ingest server${seen ?? ''}: a proxy may have sent it. It must pass on /v1/ and /readyz, without a sign-in of its own.`,
    { status: response?.status ?? 0, retryAfterMs: response && retryAfterMsOf(response) },
  )
}

/** The error for a response that is not 2xx; reads its body. */
export async function toRequestError(response: Response): Promise<RequestError> {
  const { status } = response
  const problem = await readProblem(response)
  if (!problem && status < 500) return foreignResponse(response)
  return new RequestError(kindOf(status, problem), problem?.detail ?? `The server responded with ${status}.`, {
    status,
    problem,
    retryAfterMs: retryAfterMsOf(response),
  })
}

/** Undefined if another server has sent it. */
async function readProblem(response: Response): Promise<Problem | undefined> {
  const problem = await response.json().catch(() => undefined)
  return problem?.type === `urn:ingest:problem:${problem?.code}` ? problem : undefined
}

function kindOf(status: number, problem: Problem | undefined): FailureKind {
  // a proxy's response for an unreachable server
  if (!problem) return 'offline'
  if (status === 401) return 'unauthorized'
  if (status === 429) return 'limited'
  if (problem.code === 'not-found') return 'unsupported'
  return status >= 500 ? 'unavailable' : 'refused'
}

/** A page that waits for longer looks broken, and timers of more than 24 days fire at once. */
const retryAfterMaxMs = 3_600_000

function retryAfterMsOf({ headers }: Response): number | undefined {
  const ms = Number(headers.get('Retry-After') ?? Number.NaN) * 1000
  return ms >= 0 ? Math.min(ms, retryAfterMaxMs) : undefined
}

/** A media type without its parameters. */
function essenceOf(mediaType: string | null): string | undefined {
  return mediaType?.split(';')[0]?.trim().toLowerCase()
}
