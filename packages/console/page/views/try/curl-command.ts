/** Linux refuses an argument of more than 131,071 bytes; a character of the body may take twelve, such as `'`. */
const argumentCharactersMax = 10_000

/** The command that sends the same batch from a POSIX shell, with the key of the environment variable INGEST_KEY. */
export function curlCommand(url: string, projectId: string, body: string): string {
  const isLong = body.length > argumentCharactersMax
  const options = [
    `curl ${quote(url)}`,
    `-H ${quote(`X-Project-Id: ${projectId}`)}`,
    '-H "X-Ingestion-Key: $INGEST_KEY"',
    `-H ${quote('Content-Type: application/json')}`,
    // not --data, which reads a file if the text begins with @
    isLong ? '--data-binary @-' : `--data-raw ${quote(body)}`,
  ]
  const command = options.join(' \\\n  ')
  // printf is built into shells, so that its argument may have any size
  return isLong ? `printf %s ${quote(body)} |\n  ${command}` : command
}

/** Within single quotes a shell changes nothing; a single quote itself stands outside of them. */
function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
