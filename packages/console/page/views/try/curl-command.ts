/** The command that sends the same batch from a POSIX shell, with the key of the environment variable INGEST_KEY. */
export function curlCommand(url: string, projectId: string, body: string): string {
  return [
    `curl ${quote(url)}`,
    `-H ${quote(`X-Project-Id: ${projectId}`)}`,
    '-H "X-Ingestion-Key: $INGEST_KEY"',
    `-H ${quote('Content-Type: application/json')}`,
    // not --data, which reads a file if the text begins with @
    `--data-raw ${quote(body)}`,
  ].join(' \\\n  ')
}

/** Within single quotes a shell changes nothing; a single quote itself stands outside of them. */
function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
