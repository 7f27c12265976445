import { quoteForShell } from '../../shell-quote.ts'

/** The command that sends the same batch from a POSIX shell, with the key of the environment variable INGEST_KEY. */
export function curlCommand(url: string, projectId: string, body: string): string {
  return [
    `curl ${quoteForShell(url)}`,
    `-H ${quoteForShell(`X-Project-Id: ${projectId}`)}`,
    '-H "X-Ingestion-Key: $INGEST_KEY"',
    `-H ${quoteForShell('Content-Type: application/json')}`,
    // not --data, which reads a file if the text begins with @
    `--data-raw ${quoteForShell(body)}`,
  ].join(' \\\n  ')
}
