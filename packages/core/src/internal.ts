export type { JsonObject } from './events/event.ts'
export { createReadTurns, type ReadStep } from './events/read-turns.ts'
export { asText, sliceEvents } from './json/json-scanner.ts'
export { checkPendingBytes } from './maps/map-quota.ts'
