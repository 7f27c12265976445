import { type EmbeddedIngest, IngestError, type KeyRecord, type Scope } from '@ingest/core'
import { describeKey, type JsonObject, parseTime } from '@ingest/core/internal'
import { readMembers } from '../http/members.ts'
import type { HttpRequest } from '../http/request.ts'
import { type HttpResponse, jsonResponse } from '../http/response.ts'
import type { Log } from '../log.ts'

/** Maximum overlap of a rotation. */
const overlapSecondsMax = 366 * 24 * 3600

export interface KeysContext {
  ingest: EmbeddedIngest
  log: Log
  request: HttpRequest
  /** The path parameters: a project id and, if the path has one, a key id. */
  params: readonly string[]
}

/** `GET /v1/projects`: the projects with an event, a map or a key. */
export async function getProjects({ ingest }: KeysContext): Promise<HttpResponse> {
  const projects = await ingest.listProjects()
  return jsonResponse(200, { projects: projects.map((projectId) => ({ projectId })) })
}

/** `GET /v1/projects/{projectId}/keys`: the keys of a project, oldest first. */
export async function getKeys({ ingest, params: [projectId = ''] }: KeysContext): Promise<HttpResponse> {
  const records = await ingest.keys.list(projectId)
  return jsonResponse(200, { projectId, keys: records.map(describe) })
}

/** `POST /v1/projects/{projectId}/keys`: creates a key, and the project if it is new. */
export async function postKey({ ingest, log, request, params: [projectId = ''] }: KeysContext): Promise<HttpResponse> {
  const { name, scopes, expiresAt } = await readOptions(request, ['name', 'scopes', 'expiresAt'])
  const { key, record } = await ingest.keys.create(projectId, {
    // the keyring checks the name
    ...(name !== undefined && { name: name as string }),
    ...(scopes !== undefined && { scopes: parseScopes(scopes) }),
    ...(expiresAt !== undefined && { expiresAt: parseExpiry(expiresAt) }),
  })
  log.info({ projectId, keyId: record.keyId, scopes: record.scopes }, 'key created')
  return jsonResponse(201, { projectId, key, ...describe(record) })
}

/** `POST /v1/projects/{projectId}/keys/{keyId}/rotate`: creates a key, and ends the old one after an overlap. */
export async function postRotation({ ingest, log, request, params }: KeysContext): Promise<HttpResponse> {
  const [projectId = '', keyId = ''] = params
  const { overlapSeconds } = await readOptions(request, ['overlapSeconds'])
  const options = overlapSeconds === undefined ? {} : { overlapMs: parseOverlap(overlapSeconds) }
  const { key, record, old } = await ingest.keys.rotate(projectId, keyId, options)
  log.info({ projectId, keyId, newKeyId: record.keyId }, 'key rotated')
  const rotated = { keyId, expiresAt: describe(old).expiresAt }
  return jsonResponse(201, { projectId, key, ...describe(record), rotated })
}

/** `DELETE /v1/projects/{projectId}/keys/{keyId}`: revokes a key; again, it changes nothing. */
export async function deleteKey({ ingest, log, params }: KeysContext): Promise<HttpResponse> {
  const [projectId = '', keyId = ''] = params
  const record = await ingest.keys.revoke(projectId, keyId)
  log.info({ projectId, keyId }, 'key revoked')
  return jsonResponse(200, { projectId, ...describe(record) })
}

/** Describes a key with the same members as `ingest keys --json`. */
const describe = (record: KeyRecord) => describeKey(record, Date.now())

/** The members of the body; empty if there is no body. */
async function readOptions(request: HttpRequest, names: readonly string[]): Promise<JsonObject> {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers.values
  if (coding === undefined && (length === undefined || length === '0')) return {}
  return readMembers(request, names)
}

function parseScopes(value: unknown): Scope[] {
  // the keyring checks which scopes exist
  if (Array.isArray(value)) return value
  throw invalid('scopes must be a list.')
}

function parseExpiry(value: unknown): number {
  const at = typeof value === 'string' ? parseTime(value) : undefined
  if (at !== undefined && at > Date.now()) return at
  throw invalid('expiresAt must be an RFC 3339 time with a zone, in the future.')
}

function parseOverlap(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= overlapSecondsMax) {
    return value * 1000
  }
  throw invalid(`overlapSeconds must be a whole number of seconds from 0 to ${overlapSecondsMax}.`)
}

function invalid(message: string): IngestError {
  return new IngestError('invalid-argument', message)
}
