import { writerSlot } from '../threads/exit-guard.ts'
import { runWriteThread } from '../threads/request-loop.ts'
import { runWriter } from './writer.ts'

await runWriteThread(writerSlot, runWriter)
