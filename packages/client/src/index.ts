export { chunkBytesMax, chunkBytesMin } from './chunk-content.ts'
export type { CallOptions } from './create-api.ts'
export type { Backoff, BackoffOptions } from './create-backoff.ts'
export { createBackoff } from './create-backoff.ts'
export type { Client, ClientOptions } from './create-client.ts'
export { createClient } from './create-client.ts'
export type {
  DropReason,
  Rejection,
  Sender,
  SenderClient,
  SenderOptions,
  SenderStats,
} from './create-sender.ts'
export { createSender } from './create-sender.ts'
export { eventBytesMax } from './fill-batch.ts'
export { lockDirectory } from './lock-directory.ts'
export type { MapSource } from './map-source.ts'
export type { PreparedEvent, PreparedPiece, PrepareOptions, RejectedInput } from './prepare-events.ts'
export { prepareEvents, rejectEvent } from './prepare-events.ts'
export type { ValueForm } from './slice-values.ts'
export type { EventSubmitter, SubmitEventsOptions, SubmittedEvents } from './submit-events.ts'
export { submitEvents } from './submit-events.ts'
export type { MapUploader, SourcePublication, UploadedMap, UploadOptions, UploadProgress } from './upload-map.ts'
export { uploadMap } from './upload-map.ts'
