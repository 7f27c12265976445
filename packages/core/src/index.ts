// Ingest

export type {
  BatchReport,
  EmbeddedIngest,
  Ingest,
  IngestObserver,
  IngestOptions,
  RetainOptions,
  Tally,
} from './ingest.ts'
export { createIngest } from './ingest.ts'
export type { BuildPage, BuildPageOptions, BuildStatus, ProjectStats, ProjectStatsReader } from './project-stats.ts'
export type { SubmitOptions, SubmitReport } from './submit/submit-batch.ts'

// Errors

export type { ErrorCode, ErrorDetails, ErrorRow, Issue, IssueCode } from './error.ts'
export { errorCodes, errorTable, IngestError } from './error.ts'

// Events

export type { BatchInput, BatchResult, RejectedEvent } from './events/batch.ts'
export { batchBytesMax, batchEventsMax } from './events/batch.ts'
export type { ErasedTotals, EraseSelection, ErasureOptions } from './events/erase-events.ts'
export type { IngestEvent } from './events/event.ts'
export { EventSchema } from './events/event.ts'
export type { EventOf, EventSchemas } from './events/event-schemas.ts'
export type { EndableRead } from './read/endable-read.ts'
export type { EventFilter } from './read/event-filter.ts'
export type { EventBatch, ReadBatchesOptions } from './read/read-batches.ts'
export type {
  EventPage,
  FollowOptions,
  PageReader,
  ReadEventsOptions,
  ReadPagesOptions,
  ScannedEvent,
} from './read/read-events.ts'
export { eventLine, followEvents } from './read/read-events.ts'
export type { RetentionOptions, RetentionRule } from './retention.ts'
export { startRetention } from './retention.ts'

// Activity

export type {
  Activity,
  ActivityGroup,
  ActivityOptions,
  ActivityRangeOptions,
  ActivityReader,
  ActivityStep,
  RejectionGroup,
  RejectionSample,
  Rejections,
} from './activity/activity.ts'
export type { ActivityStore } from './store.ts'
export type { ActivityRange, ActivityRow, ActivitySpan, ActivityToPut } from './store-types.ts'
export { activityBodyBytesMax, activityRowsMax } from './store-types.ts'

// Maps

export { canonicalJson } from './json/canonical-json.ts'
export type { LatePublish } from './maps/decide-publication.ts'
export { digestOf } from './maps/digest.ts'
export type {
  MapContent,
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
export type { MapRules } from './maps/maps.ts'
export { chunkBytesMax, ManifestSchema, PublicationSchema } from './maps/publication.ts'
export type { ChunkRef, ChunkUpload, Digest, Manifest, MapId, MapKey } from './store-types.ts'

// Entries of projects

export type { EntryStore } from './store.ts'
export type { ConsumerRecord, Entries, EntryDecision, EntryKind } from './store-types.ts'

// Consumers

export type {
  AllConsumers,
  Consumer,
  ConsumerLag,
  Consumers,
  ProjectConsumer,
  PutConsumerOptions,
  PutConsumerResult,
} from './consumers/consumers.ts'

// Keys

export type { Authenticate, Authenticated, Credentials, KeyOptions, Keyring } from './projects/keyring.ts'
export type { KeyRecord, Project, Scope } from './store-types.ts'
export { scopes } from './store-types.ts'

// Copies between stores

export type { CopiedProject, CopyOptions, CopyProgress } from './copy/copy-stores.ts'
export { copyStores } from './copy/copy-stores.ts'

// Stores and their adapters

export type { Cursor, EventCursors, StoreIdentity } from './json/cursor.ts'
export { eventCursors } from './json/cursor.ts'
export { declaredBytes, pendingBytesOf } from './maps/map-quota.ts'
export { contentsAfterExpiry, digestsOf, isExpired, isPendingVoid } from './maps/pending-map.ts'
export { openMemoryStore } from './memory/memory-store.ts'
export type { EventStore, MapStore, Store } from './store.ts'
export type {
  AppendBatch,
  AppendResult,
  BatchEvents,
  BuildEntry,
  BuildPosition,
  BuildSelection,
  ClockDoubt,
  CompleteMap,
  EventCount,
  EventRange,
  ExpiryStep,
  FoundBuilds,
  MapChunks,
  MapContents,
  MapDecision,
  MapEntry,
  MapSelection,
  MapSlot,
  NewChunk,
  PendingManifest,
  PendingTotals,
  PutChunkOutcome,
  ReadOptions,
  StoreCommit,
  StoredEvent,
  StoreMetric,
  Totals,
  UpdatedSlot,
} from './store-types.ts'
export { aheadMsMax, buildsSearchedMax, foldBuildId, readyMapsMax } from './store-types.ts'
export type { AppendEvent } from './submit/batch-events.ts'
export { decodeEvents } from './submit/batch-events.ts'
