import { quoteForShell } from '../../shell-quote.ts'

/** Linux refuses an argument of more than 131,071 bytes; a character of the body may take four, such as `'`. */
const argumentCharactersMax = 30_000

/** The command that sends the same batch from a POSIX shell, with the key of the environment variable INGEST_KEY. */
export function curlCommand(url: string, projectId: string, body: string): string {
  const isLong = body.length > argumentCharactersMax
  const options = [
    `curl ${quoteForShell(url)}`,
    `-H ${quoteForShell(`X-Project-Id: ${projectId}`)}`,
    '-H "X-Ingestion-Key: $INGEST_KEY"',
    `-H ${quoteForShell('Content-Type: application/json')}`,
    // not --data, which reads a file if the text begins with @
    isLong ? '--data-binary @-' : `--data-raw ${quoteForShell(body)}`,
  ]
  const command = options.join(' \\\n  ')
  // printf is built into shells, so that its argument may have any size
  return isLong ? `printf %s ${quoteForShell(body)} |\n  ${command}` : command
}
