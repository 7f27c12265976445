import { createCalls } from './calls.ts'
import { type PagePort, serveCalls } from './serve-calls.ts'

serveCalls(globalThis as unknown as PagePort, createCalls())
