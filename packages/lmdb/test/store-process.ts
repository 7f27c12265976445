import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { BatchResult, Maps } from '@ingest/core'

export interface Question {
  id: number
  ask:
    | 'submit'
    | 'known'
    | 'check'
    | 'hold'
    | 'hold-ids'
    | 'look'
    | 'count'
    | 'revoke'
    | 'call'
    | 'operate'
    | 'close'
    | 'exit'
  eventIds?: string[]
  /** The method to call, of the Ingest for project `p` or of the store. */
  method?: string
  args?: unknown[]
}

interface Message {
  id?: number
  answer?: unknown
  code?: string
  ready?: true
  refused?: string
  fatal?: string
  unhandled?: string
}

/** A store in a process of its own. A request rejects if the process ends before it responds. */
export interface StoreProcess {
  submit(eventIds: string[]): Promise<BatchResult>
  known(eventIds: string[]): Promise<boolean[]>
  /**
   * `hold` and `hold-ids` stay inside the gate of the log or of the index for as long as the process lives, and `look`
   * takes a snapshot of the log; `count` adds 1 to when project `counted` was created; `revoke` revokes the keys of project `p`.
   */
  ask(ask: 'check' | 'hold' | 'hold-ids' | 'look' | 'count' | 'revoke'): Promise<unknown>
  /** Calls a method of the maps of the Ingest for project `p`; a map's content is returned as its bytes. */
  call<M extends keyof Maps>(method: M, ...args: Parameters<Maps[M]>): Promise<CallAnswer<M>>
  /** Runs an operation of the store by its name. */
  operate<T>(method: string, ...args: unknown[]): Promise<T>
  kill(): Promise<void>
  /** Stops the process (SIGSTOP), and resolves when it is stopped. */
  stop(): Promise<void>
  pid: number
  /** Exits with the store open; resolves with its exit code, or the signal that ended it. */
  exit(): Promise<number | NodeJS.Signals>
  /** Closes the store and lets the process end by itself; resolves with its exit code. */
  end(): Promise<number>
  /** The codes passed to `onFatal`, and unhandled rejections. */
  fatal: string[]
  unhandled: string[]
}

type CallAnswer<M extends keyof Maps> = M extends 'getMapContent' ? Buffer | undefined : Awaited<ReturnType<Maps[M]>>

const program = fileURLToPath(new URL('store-program.js', import.meta.url))

/** Why `strace` cannot be used here; false if it can. */
export const noStrace =
  process.platform !== 'linux' || spawnSync('strace', ['-o', '/dev/null', 'true']).status !== 0
    ? 'strace is not on this machine'
    : false

/**
 * The command line that runs a program with slow openings of the environments in these directories, as on a busy machine:
 * LMDB is delayed between reading the header of a data file and using it.
 */
export function slowOpenings(directories: string[]): string[] {
  const paths = directories.flatMap((directory) => ['-P', join(directory, 'data.mdb')])
  return ['strace', '-f', '-qq', '-o', '/dev/null', ...paths, '-e', 'trace=mmap', '-e', 'inject=mmap:delay_exit=20000']
}

/** The command line that runs a program as process 1 of its own PID namespace, as in a container. */
export const container = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child']

/** Why a process cannot be given a PID namespace here, as a container has one; false if it can. */
export const noContainer =
  process.platform !== 'linux' || spawnSync('unshare', [...container.slice(1), 'true']).status !== 0
    ? 'a PID namespace takes Linux and its root'
    : false

export interface StartOptions {
  /** Runs it as process 1 of a PID namespace of its own, as in a container. */
  inContainer?: boolean
  commitTimeoutMs?: number
  /** The size of a run of the id index; small runs cause many flushes and merges. */
  entriesPerFlush?: number
  /** Faults that strace injects into the process's system calls, such as `fdatasync:error=EIO:when=3+`. */
  inject?: string[]
  /** Whether its openings are slow, see {@link slowOpenings}. */
  isSlowToOpen?: boolean
  /** More variables of its environment. */
  env?: NodeJS.ProcessEnv
}

/** Starts a process on the store in `directory`; rejects with the code with which the store refuses to open. */
export async function startStoreProcess(directory: string, options: StartOptions = {}): Promise<StoreProcess> {
  const { commitTimeoutMs = 30_000, entriesPerFlush = '', inject = [], inContainer = false, isSlowToOpen } = options
  const node = [process.execPath, program, directory, String(commitTimeoutMs), String(entriesPerFlush)]
  const faults = inject.flatMap((each) => ['-e', `inject=${each}`])
  const strace = ['strace', '-f', '-qq', '-o', '/dev/null', '-e', `trace=${names(inject)}`, ...faults]
  const [command = '', ...args] = [
    ...plain,
    ...(inContainer ? container : []),
    ...(inject.length > 0 ? strace : []),
    ...(isSlowToOpen ? slowOpenings(['events', 'chunks', 'ids'].map((name) => join(directory, name))) : []),
    ...node,
  ]
  const child = spawn(command, args, {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // keeps bytes as bytes
    serialization: 'advanced',
    detached: true,
    // one thread, so that the n-th call is the same call each time
    env: { ...process.env, UV_THREADPOOL_SIZE: '1', ...options.env },
  })
  return talkTo(child)
}

/** Without NODE_OPTIONS: the test runner's loader, which it adds to every Node.js process, takes half a second. */
const plain = process.platform === 'win32' ? [] : ['env', '-u', 'NODE_OPTIONS']

function names(inject: string[]): string {
  return inject.map((each) => each.split(':')[0]).join(',')
}

async function talkTo(child: ChildProcess): Promise<StoreProcess> {
  const waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>()
  const fatal: string[] = []
  const unhandled: string[] = []
  let lastId = 0
  const exited = once(child, 'exit')
  child.on('message', ({ id, answer, code, fatal: failed, unhandled: missed }: Message) => {
    if (failed !== undefined) fatal.push(failed)
    if (missed !== undefined) unhandled.push(missed)
    if (id === undefined) return
    if (code === undefined) waiting.get(id)?.resolve(answer as never)
    else waiting.get(id)?.reject(Object.assign(new Error(code), { code }))
    waiting.delete(id)
  })
  child.on('exit', (code, signal) => {
    for (const { reject } of waiting.values()) reject(new Error(`the process has ended with ${signal ?? code}`))
  })
  const [first] = (await Promise.race([once(child, 'message'), exited.then(() => [{ refused: 'exited' }])])) as [
    Message,
  ]
  if (first.refused !== undefined) throw Object.assign(new Error(first.refused), { code: first.refused })

  function request<T>(ask: Question['ask'], more: Partial<Question> = {}): Promise<T> {
    const id = ++lastId
    return new Promise((resolve, reject) => {
      if (child.exitCode !== null || child.signalCode !== null) return reject(new Error('the process has ended'))
      waiting.set(id, { resolve, reject })
      child.send({ id, ask, ...more }, (error) => error && reject(error))
    })
  }

  return {
    submit: (eventIds) => request('submit', { eventIds }),
    known: (eventIds) => request('known', { eventIds }),
    ask: (ask) => request(ask),
    call: (method, ...args) => request('call', { method, args }),
    operate: (method, ...args) => request('operate', { method, args }),
    async kill() {
      // kill the group, because the child of strace would survive
      if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
        process.kill(-child.pid, 'SIGKILL')
      await exited
    },
    async stop() {
      process.kill(-(child.pid as number), 'SIGSTOP')
      while (!/^State:\tT/m.test(readFileSync(`/proc/${child.pid}/status`, 'utf8'))) await nextTurn()
    },
    pid: child.pid as number,
    async exit() {
      request('exit').catch(() => {})
      const [code, signal] = await exited
      return code ?? signal
    },
    async end() {
      await request('close')
      child.disconnect()
      const [code] = await exited
      return code
    },
    fatal,
    unhandled,
  }
}
