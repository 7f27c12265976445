import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { get } from 'node:http'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

/** `ingest serve` on a PostgreSQL store, in a process of its own. */
export interface IngestServer {
  url: string
  port: number
  pid: number
  /** The status of `/readyz`, and how long it took. */
  readiness(): Promise<{ status: number; ms: number }>
  signal(name: NodeJS.Signals): void
  /** `kill -9`. */
  kill(): Promise<void>
  /** Resolves with the exit code, or the signal that ended it. */
  exited: Promise<number | NodeJS.Signals>
}

const command = fileURLToPath(new URL('../../../cli/bin/ingest.js', import.meta.url))

/** Starts the built command on a free port, or on that of a server that has ended, until the end of the test. */
export async function startIngestServer(t: Test, store: string, port = 0): Promise<IngestServer> {
  const args = ['serve', '--listen', `127.0.0.1:${port}`, '--rate-limit', 'off', '--log-level', 'fatal']
  const [node, ...flags] = withoutLoaders([process.execPath, command, ...args])
  const child = spawn(node as string, flags, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, INGEST_STORE: store },
  })
  const exited = once(child, 'exit').then(([code, signal]) => signal ?? code)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const [line] = await Promise.race([
    once(createInterface(child.stdout), 'line'),
    exited.then((end) => {
      throw new Error(`ingest serve ended with ${end}`)
    }),
  ])
  const url = line.replace('listening on ', '')
  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid as number,
    readiness: () => probe(`${url}/readyz`),
    signal: (name) => void child.kill(name),
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    exited,
  }
}

/** The test runner adds loaders to each Node that it sees, which take it longer to start than the command. */
function withoutLoaders(line: string[]): string[] {
  return process.platform === 'win32' ? line : ['sh', '-c', 'unset NODE_OPTIONS; exec "$0" "$@"', ...line]
}

function probe(url: string): Promise<{ status: number; ms: number }> {
  const startedAt = performance.now()
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false }, (response) => {
      response.resume()
      resolve({ status: response.statusCode as number, ms: performance.now() - startedAt })
    })
    request.on('error', reject)
  })
}
