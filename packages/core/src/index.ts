export type { ErrorCode, ErrorDetails } from './error.ts'
export { errorCodes, IngestError } from './error.ts'
export type { BatchInput, BatchResult, RejectedEvent } from './events/batch.ts'
export { batchBody, batchBytesMax, batchEventsMax, batchTooLarge, parseEvents } from './events/batch.ts'
export type { CheckedEvent } from './events/classify-events.ts'
export { checkEvent } from './events/classify-events.ts'
export type { EventCursors, StoreIdentity } from './events/cursor.ts'
export { eventCursors } from './events/cursor.ts'
export type { IngestEvent, KnownField } from './events/event.ts'
export {
  EventSchema,
  eventDepthMax,
  eventIdBytesMax,
  eventIdIssue,
  isProjectId,
  knownFields,
  parseTime,
} from './events/event.ts'
export { eventLine } from './events/event-line.ts'
export type { EventOf, EventSchemas } from './events/event-schemas.ts'
export type {
  AppendBatch,
  AppendEvent,
  AppendResult,
  Cursor,
  EventStore,
  ReadOptions,
  RecentEvents,
  StoredEvent,
  Totals,
} from './events/event-store.ts'
export type { FollowOptions } from './events/follow-events.ts'
export { followEvents } from './events/follow-events.ts'
export type { EventFilter, ReadEventsOptions } from './events/read-events.ts'
export { checkReadEventsOptions } from './events/read-events.ts'
export type { EmbeddedIngest, Ingest, IngestOptions, SubmitOptions, Tally } from './ingest.ts'
export { createIngest } from './ingest.ts'
export { canonicalJson, mapDepthMax } from './json/canonical-json.ts'
export { sliceMember } from './json/json-scanner.ts'
export { parseJson, withoutMark } from './json/parse-json.ts'
export { digestOf, isDigest } from './maps/digest.ts'
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
} from './maps/map.ts'
export { manifestBytes } from './maps/map-quota.ts'
export type {
  BuildEntry,
  BuildSelection,
  CompleteMap,
  MapChunks,
  MapContents,
  MapDecision,
  MapEntry,
  MapSelection,
  MapSlot,
  MapStore,
  NewChunk,
  PendingManifest,
  PendingMap,
  PutChunkOutcome,
} from './maps/map-store.ts'
export type { MapRules } from './maps/maps.ts'
export { chunkBytesMax, manifestChunksMax } from './maps/publication.ts'
export { openMemoryStore } from './memory/memory-store.ts'
export type { BuildPage, BuildPageOptions, BuildStatus, ProjectStats, Statistics } from './project-stats.ts'
export type { Authenticate, Credentials, KeyOptions, Keyring } from './projects/keyring.ts'
export { createKeyring } from './projects/keyring.ts'
export type { KeyRecord, Project, Scope } from './projects/project.ts'
export { isActive, keyIdOf, scopes } from './projects/project.ts'
export type { ProjectDecision, ProjectStore } from './projects/project-store.ts'
export type { Store } from './store.ts'
export type { Issue, IssueCode } from './validation.ts'
export { issuesMax } from './validation.ts'
