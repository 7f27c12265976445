import { quoteForShell } from '../shell-quote.ts'
import { apiUrl } from './api.ts'

/** A valid batch of one event with a new id. It names no build, because that would be frozen. */
export function sampleBatch(projectId: string): string {
  const event = { projectId, eventId: `hello-${randomId()}`, type: 'hello', timestamp: new Date().toISOString() }
  return JSON.stringify({ events: [event] })
}

// randomUUID exists only on pages served with TLS
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** A command that sends the batch from a POSIX shell, with the key in the environment variable INGEST_KEY. */
export function curlCommand(projectId: string, batch: string): string {
  return [
    `curl ${quoteForShell(apiUrl('v1/events/batch'))}`,
    `-H ${quoteForShell(`X-Project-Id: ${projectId}`)}`,
    '-H "X-Ingestion-Key: $INGEST_KEY"',
    `-H ${quoteForShell('Content-Type: application/json')}`,
    // not --data, which reads a file if the text begins with @
    `--data-raw ${quoteForShell(batch)}`,
  ].join(' \\\n  ')
}
