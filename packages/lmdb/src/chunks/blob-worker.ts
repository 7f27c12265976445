import { lowerThreadPriority } from '@ingest/core/internal'
import { blobSlot } from '../threads/exit-guard.ts'
import { runWriteThread } from '../threads/request-loop.ts'
import { runBlobWriter } from './blob-writer.ts'

// uploads yield to events
lowerThreadPriority(5)
await runWriteThread(blobSlot, runBlobWriter)
