import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { freePort, pidsOf, serverUser, signal, takeOver } from '../postgres-server.ts'

/** A Patroni agent and its PostgreSQL server. */
export interface PatroniNode {
  name: string
  port: number
  /** Signals only its agent. */
  signal(name: NodeJS.Signals): void
  /** Kills both, as the loss of the machine does. */
  kill(): Promise<void>
  /** Starts them again. */
  start(): void
}

export interface PatroniCluster {
  /** The URL that names all nodes. */
  url: string
  /** The URL of HAProxy, which leads to the primary. */
  proxyUrl: string
  /** The URL of one node. */
  urlOf(node: PatroniNode): string
  nodes: PatroniNode[]
  /** Resolves with the primary when it has a synchronous standby and `count` nodes are running. */
  ready(count: number): Promise<{ primary: PatroniNode; standby: PatroniNode }>
  /** Switches over to the synchronous standby. */
  switchOver(): Promise<void>
}

interface Member {
  name: string
  role: string
  state: string
}

const names = ['a', 'b', 'c']
/** In seconds; the least that Patroni accepts. */
const ttl = 20
const pollMs = 200

/** Starts etcd, three nodes with synchronous replication, and HAProxy, on 127.0.0.1 until the end of the test. */
export async function startPatroniCluster(t: Test): Promise<PatroniCluster> {
  const root = mkdtempSync(join(tmpdir(), 'ingest-patroni-'))
  takeOver(root)
  const processes = new Set<ChildProcess>()
  function run(command: string, args: string[]): ChildProcess {
    const log = openSync(join(root, `${command}.log`), 'a')
    const child = spawn(command, args, { ...serverUser(), cwd: root, stdio: ['ignore', log, log] })
    processes.add(child)
    child.once('exit', () => processes.delete(child))
    return child
  }

  const [etcd, proxy] = [await startEtcd(run, root), await freePort()]
  const ports = await Promise.all(names.map(async (name) => ({ name, port: await freePort(), api: await freePort() })))
  const nodes = ports.map((each) => createNode({ ...each, root, etcd, run }))
  t.teardown(async () => {
    for (const node of nodes) await node.kill()
    for (const child of processes) child.kill('SIGKILL')
    rmSync(root, { recursive: true, force: true })
  })
  const servers = ports.map(({ name, port, api }) => `server ${name} 127.0.0.1:${port} check port ${api}`)
  writeFileSync(join(root, 'haproxy.cfg'), `${proxySettings(proxy)}${servers.map((line) => `  ${line}\n`).join('')}`)
  run('haproxy', ['-f', join(root, 'haproxy.cfg')])

  const roles = createRoles(ports, nodes)
  // the others copy the first one
  nodes[0]?.start()
  await until(async () => (await roles()).primary !== undefined)
  for (const node of nodes.slice(1)) node.start()
  return {
    nodes,
    url: `postgres://postgres@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}/ingest`,
    proxyUrl: `postgres://postgres@127.0.0.1:${proxy}/ingest`,
    urlOf: ({ port }) => `postgres://postgres@127.0.0.1:${port}/ingest`,

    ready: (count) =>
      until(async () => {
        const { primary, standby, running } = await roles()
        return primary && standby && running >= count ? { primary, standby } : undefined
      }),

    async switchOver() {
      const { primary, standby } = await roles()
      const body = JSON.stringify({ leader: primary?.name, candidate: standby?.name })
      const { api } = ports.find(({ name }) => name === primary?.name) as { api: number }
      const response = await fetch(`http://127.0.0.1:${api}/switchover`, { method: 'POST', body })
      if (!response.ok) throw new Error(await response.text())
    },
  }
}

type Run = (command: string, args: string[]) => ChildProcess

/** Returns the port of etcd. */
async function startEtcd(run: Run, root: string): Promise<number> {
  const [etcd, peer] = [await freePort(), await freePort()]
  const [etcdUrl, peerUrl] = [`http://127.0.0.1:${etcd}`, `http://127.0.0.1:${peer}`]
  run('etcd', [
    // the API with which Debian 12's Patroni is not affected by patroni#2689
    '--enable-v2',
    ...['--name', 'etcd', '--data-dir', join(root, 'etcd')],
    ...['--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
    ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
    ...['--initial-cluster', `etcd=${peerUrl}`],
  ])
  await until(async () => (await fetch(`${etcdUrl}/health`)).ok)
  return etcd
}

interface Ports {
  name: string
  port: number
  /** Port of the agent's API. */
  api: number
}

function createRoles(ports: readonly Ports[], nodes: readonly PatroniNode[]) {
  /** The members as seen by any agent that responds. */
  async function members(): Promise<Member[]> {
    return Promise.any(
      ports.map(async ({ api }) => {
        const response = await fetch(`http://127.0.0.1:${api}/cluster`, { signal: AbortSignal.timeout(1000) })
        return ((await response.json()) as { members: Member[] }).members
      }),
    )
  }

  return async function roles(): Promise<{ primary?: PatroniNode; standby?: PatroniNode; running: number }> {
    const all = await members()
    const nodeOf = (role: string) => {
      const member = all.find((each) => each.role === role && isRunning(each))
      return nodes.find(({ name }) => name === member?.name)
    }
    const [primary, standby] = [nodeOf('leader'), nodeOf('sync_standby')]
    return { ...(primary && { primary }), ...(standby && { standby }), running: all.filter(isRunning).length }
  }
}

interface NodeOptions extends Ports {
  root: string
  /** Port of etcd. */
  etcd: number
  run: Run
}

function createNode({ name, port, api, root, etcd, run }: NodeOptions): PatroniNode {
  const directory = join(root, name)
  const data = join(directory, 'data')
  const file = join(directory, 'patroni.json')
  mkdirSync(directory)
  writeFileSync(file, JSON.stringify(patroniSettings({ name, port, api, etcd, directory, data })))
  takeOver(directory)
  let agent: ChildProcess | undefined
  return {
    name,
    port,

    start() {
      // JSON is YAML
      agent = run('patroni', [file])
    },

    signal: (name) => void agent?.kill(name),

    async kill() {
      if (agent && agent.exitCode === null && agent.signalCode === null) {
        agent.kill('SIGKILL')
        await once(agent, 'exit')
      }
      for (const pid of pidsOf(data)) signal(pid, 'SIGKILL')
    },
  }
}

function patroniSettings({
  name,
  port,
  api,
  etcd,
  directory,
  data,
}: Omit<NodeOptions, 'root' | 'run'> & { directory: string; data: string }) {
  const [version] = readdirSync('/usr/lib/postgresql').sort().reverse()
  return {
    scope: 'ingest',
    name,
    restapi: { listen: `127.0.0.1:${api}`, connect_address: `127.0.0.1:${api}` },
    etcd: { host: `127.0.0.1:${etcd}` },
    bootstrap: {
      dcs: {
        ttl,
        loop_wait: 2,
        retry_timeout: 3,
        synchronous_mode: true,
        synchronous_mode_strict: true,
        postgresql: { use_pg_rewind: true },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, 'data-checksums'],
      pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      bin_dir: `/usr/lib/postgresql/${version}/bin`,
      data_dir: data,
      pgpass: join(directory, 'pgpass'),
      authentication: {
        superuser: { username: 'postgres', password: 'unused' },
        replication: { username: 'replicator', password: 'unused' },
        rewind: { username: 'rewind', password: 'unused' },
      },
      parameters: { unix_socket_directories: directory },
    },
    watchdog: { mode: 'off' },
  }
}

/** The settings of HAProxy in the documentation of Patroni. */
function proxySettings(port: number): string {
  return `defaults
  mode tcp
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  timeout check 1s
listen primary
  bind 127.0.0.1:${port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
`
}

function isRunning({ state }: Member): boolean {
  return state === 'running' || state === 'streaming'
}

/** Calls until the result is truthy. */
async function until<T>(call: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const result = await call().catch(() => undefined)
    if (result) return result
    await sleep(pollMs)
  }
}
