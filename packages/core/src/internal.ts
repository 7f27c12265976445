// What only the other packages of Ingest need: it may change with any version.

export { batchBody, batchTooLarge, parseEvents } from './events/batch.ts'
export { column, countEvents, encodeEvents, noBuild, wordsPerEvent } from './events/batch-events.ts'
export type { KnownField } from './events/event.ts'
export { eventIdIssue, knownFields } from './events/event.ts'
export { hashId } from './events/id-hash.ts'
export { checkReadEventsOptions } from './events/read-events.ts'
export { scanBatch } from './events/scan-batch.ts'
export { sliceMember } from './json/json-scanner.ts'
export { parseJson, stripByteOrderMark } from './json/parse-json.ts'
export { isDigest } from './maps/digest.ts'
export type { JsonObject } from './validation.ts'
export { isProjectId, parseTime } from './validation.ts'
