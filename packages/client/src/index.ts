export { eventBytesMax } from './batch/fill-batch.ts'
export type { CallOptions } from './calls/api.ts'
export type { Client, ClientOptions } from './client.ts'
export { createClient } from './client.ts'
export type { Backoff, BackoffOptions } from './http/retry.ts'
export { createBackoff } from './http/retry.ts'
export type { PreparedEvent, PreparedEvents, PrepareOptions, RejectedInput } from './import/prepare-events.ts'
export { prepareEvents, rejectEvent } from './import/prepare-events.ts'
export type { ValueForm } from './import/slice-values.ts'
export type { EventSubmitter, SubmitEventsOptions, SubmittedEvents } from './import/submit-events.ts'
export { submitEvents } from './import/submit-events.ts'
export { lockDirectory } from './sender/lock-directory.ts'
export type {
  DropReason,
  Rejection,
  Sender,
  SenderClient,
  SenderOptions,
  SenderStats,
} from './sender/sender.ts'
export { createSender } from './sender/sender.ts'
export { chunkBytesMax, chunkBytesMin } from './upload/chunk-content.ts'
export type { MapSource } from './upload/map-source.ts'
export type { MapUploader, SourcePublication, UploadedMap, UploadOptions, UploadProgress } from './upload/upload-map.ts'
export { uploadMap } from './upload/upload-map.ts'
