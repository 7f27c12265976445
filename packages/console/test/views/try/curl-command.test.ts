import { execFileSync } from 'node:child_process'
import { accessSync } from 'node:fs'
import t from 'tap'
import { curlCommand } from '../../../page/views/try/curl-command.ts'

const shell = '/bin/sh'

function reasonOfNoShell(): string | false {
  try {
    accessSync(shell)
    return false
  } catch {
    return `${shell} is missing`
  }
}

/** The arguments that a shell passes to curl. */
function argumentsOf(command: string): string[] {
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const output = execFileSync(shell, ['-c', script], { encoding: 'utf8', env: { INGEST_KEY: 'ik_1' } })
  return output.split('\0').slice(0, -1)
}

t.test(
  'a shell passes every body on as it is, and the key of its environment',
  { skip: reasonOfNoShell() },
  async (t) => {
    const bodies = [
      '{"events":[]}',
      `{"note":"it's $HOME \`id\` $(id) \\" \\\\ !! * 'quoted' ''"}`,
      '{\n  "a": "🎮"\n}\n',
      '@/etc/passwd',
      '-X',
      '',
    ]
    for (const body of bodies) {
      t.strictSame(argumentsOf(curlCommand('http://localhost:8787/v1/events/batch', 'demo', body)), [
        'http://localhost:8787/v1/events/batch',
        '-H',
        'X-Project-Id: demo',
        '-H',
        'X-Ingestion-Key: ik_1',
        '-H',
        'Content-Type: application/json',
        '--data-raw',
        body,
      ])
    }
  },
)

t.test(
  'a body that is too long for an argument reaches the standard input of curl',
  { skip: reasonOfNoShell() },
  async (t) => {
    const body = `{"note":"${"it's $HOME ".repeat(20_000)}"}`
    const command = curlCommand('http://localhost:8787/v1/events/batch', 'demo', body)
    const script = `curl() { shift $(($# - 1)); printf '%s ' "$1"; cat; }\n${command}`
    const maxBuffer = 2 * body.length
    t.equal(execFileSync(shell, { input: script, encoding: 'utf8', maxBuffer, env: process.env }), `@- ${body}`)
  },
)
