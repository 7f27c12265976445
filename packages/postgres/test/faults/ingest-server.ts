import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

/** `ingest serve` on a PostgreSQL store, in a process of its own. */
export interface IngestServer {
  url: string
  port: number
  /** The status of `/readyz`. */
  readiness(): Promise<number>
  signal(name: NodeJS.Signals): void
  /** `kill -9`. */
  kill(): Promise<void>
}

const command = fileURLToPath(new URL('../../../cli/bin/ingest.js', import.meta.url))

/** Starts the built command until the end of the test, on a free port or on the port of a server that has ended. */
export async function startIngestServer(t: Test, store: string, port = 0): Promise<IngestServer> {
  const args = ['serve', '--listen', `127.0.0.1:${port}`, '--rate-limit', 'off', '--log-level', 'fatal']
  const child = spawn(process.execPath, [command, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, INGEST_STORE: store },
  })
  const exited = once(child, 'exit')
  const kill = async () => {
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(kill)
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
    readiness: async () => (await fetch(`${url}/readyz`)).status,
    signal: (name) => void child.kill(name),
    kill,
  }
}
