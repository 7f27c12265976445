export type { BatchInput, BatchResult, RejectedEvent } from './batch.ts'
export { batchBody, batchBytesMax, batchEventsMax, batchTooLarge, parseEvents } from './batch.ts'
export { canonicalJson, mapDepthMax } from './canonical-json.ts'
export type { CheckedEvent } from './check-event.ts'
export { checkEvent } from './check-event.ts'
export type { EventCursors, StoreIdentity } from './cursor.ts'
export { eventCursors } from './cursor.ts'
export { digestOf, isDigest } from './digest.ts'
export type { ErrorCode, ErrorDetails } from './error.ts'
export { errorCodes, IngestError } from './error.ts'
export type { Event, KnownField } from './event.ts'
export { EventSchema, eventDepthMax, eventIdBytesMax, eventIdIssue, isProjectId, knownFields } from './event.ts'
export type { EventFilter } from './event-filter.ts'
export { eventLine } from './event-line.ts'
export type { EventSchemas } from './event-schemas.ts'
export type { FollowOptions } from './follow-events.ts'
export { followEvents } from './follow-events.ts'
export type { EmbeddedIngest, Ingest, IngestOptions, SubmitOptions, Tally } from './ingest.ts'
export { createIngest } from './ingest.ts'
export type { Issue, IssueCode } from './issue.ts'
export { issuesMax } from './issue.ts'
export type { KeyRecord, Project, Scope } from './key.ts'
export { isActive, keyIdOf, scopes } from './key.ts'
export type { Authenticate, Credentials, KeyOptions, Keyring } from './keyring.ts'
export { createKeyring } from './keyring.ts'
export type {
  ChunkRef,
  ChunkUpload,
  Digest,
  Manifest,
  MapContent,
  MapId,
  MapKey,
  MapPage,
  MapPageOptions,
  MapStatus,
  Maps,
  Publication,
  PublishedMap,
  PublishOptions,
  PublishOutcome,
  PutChunkResult,
  PutChunksResult,
  VerificationOptions,
} from './map.ts'
export { manifestBytes } from './map-quota.ts'
export type { MapRules } from './maps.ts'
export { openMemoryStore } from './memory-store.ts'
export { parseJson, withoutMark } from './parse-json.ts'
export { parseTime } from './parse-time.ts'
export { chunkBytesMax, manifestChunksMax } from './publication.ts'
export type { ReadEventsOptions } from './read-events.ts'
export { checkReadEventsOptions } from './read-events.ts'
export { sliceMember } from './slice-events.ts'
export type { BuildPage, BuildPageOptions, BuildStatus, ProjectStats, Statistics } from './statistics.ts'
export type {
  Activity,
  AppendBatch,
  AppendEvent,
  AppendResult,
  BuildEntry,
  BuildSelection,
  CompleteMap,
  Cursor,
  MapChunks,
  MapContents,
  MapDecision,
  MapEntry,
  MapSelection,
  MapSlot,
  NewChunk,
  PendingMap,
  ProjectDecision,
  ReadOptions,
  Store,
  StoredEvent,
  Totals,
} from './store.ts'
