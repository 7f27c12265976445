// The limits of the well-known fields of an event, in bytes of UTF-8. The rules in event.ts and the scanner in assembly/
// are both compiled from them.

export const eventIdBytesMax = 256
export const typeBytesMin = 1
export const typeBytesMax = 200
export const buildIdBytesMin = 1
export const buildIdBytesMax = 128
export const placeIdBytesMin = 1
export const placeIdBytesMax = 128
/** Of `sessionId`, `serverId` and `playerId`. */
export const otherIdBytesMin = 0
export const otherIdBytesMax = 256
