import type { CallContext } from './call-context.ts'
import { createMapCalls, type LastMap } from './map-calls.ts'
import { createWhereCalls } from './where-calls.ts'

/** All calls of the worker. Opened maps and read events stay in memory until it ends. */
export function createCalls() {
  const last: LastMap = { parts: undefined }
  return { ...createMapCalls(last), ...createWhereCalls(last) }
}

export type Calls = ReturnType<typeof createCalls>
export type CallName = keyof Calls
export type ArgumentOf<Name extends CallName> = Parameters<Calls[Name]>[0]
export type ResultOf<Name extends CallName> = Awaited<ReturnType<Calls[Name]>>
export type ProgressOf<Name extends CallName> =
  Parameters<Calls[Name]>[1] extends CallContext<infer Progress> ? Progress : never
