import { toFailure } from '../exit-code.ts'
import { type Io, processIo, type StopSignal } from '../io.ts'
import type { RunningServer } from '../serve/listen.ts'
import { runServer } from '../serve/run-server.ts'
import type { ServeSettings } from '../serve/serve-settings.ts'
import type { FromWorker, ToWorker, WorkerTask } from './messages.ts'

// One process of `ingest serve --workers n`. It does what the primary says, and Node ends it when the primary is gone.

const stopListeners = new Set<(signal: StopSignal) => void>()
const reloadListeners = new Set<() => void>()
let stopped: StopSignal | undefined
let settings: ServeSettings | undefined
let running: RunningServer | undefined

// a terminal sends these to the primary too, which passes them on
process.on('SIGINT', () => {})
process.on('SIGHUP', () => {})
process.on('SIGTERM', stop)
process.on('message', (message: ToWorker) => {
  if (message.type === 'start') void work(message.task)
  else if (message.type === 'stop') stop(message.signal)
  else if (message.type === 'collect') void collect(message.number)
  else {
    settings = message.settings
    for (const listener of reloadListeners) listener()
  }
})
send({ type: 'online' })

async function work(task: WorkerTask): Promise<void> {
  settings = task.settings
  try {
    await runServer(createIo(), task.settings, {
      isMeasured: task.isMeasured,
      worker: task,
      // the primary reports what needs a restart
      reload: () => ({ settings: settings ?? task.settings, needRestart: [] }),
      onListening: async (server) => {
        running = server
        send({ type: 'listening', url: server.served.url, port: server.served.port })
      },
    })
    process.exit()
  } catch (error) {
    const failure = await toFailure(error)
    send({ type: 'failed', failure }, () => process.exit(failure.exitCode))
  }
}

function createIo(): Io {
  return Object.assign(processIo(), {
    onSignal(listener: (signal: StopSignal) => void) {
      stopListeners.add(listener)
      if (stopped) listener(stopped)
      return () => void stopListeners.delete(listener)
    },
    onReload(listener: () => void) {
      reloadListeners.add(listener)
      return () => void reloadListeners.delete(listener)
    },
  })
}

function stop(signal: NodeJS.Signals): void {
  stopped = signal as StopSignal
  for (const listener of stopListeners) listener(stopped)
}

async function collect(number: number): Promise<void> {
  const metrics = (await running?.metrics?.toJson()) ?? []
  send({ type: 'collected', number, metrics })
}

/** Without a primary, there is nothing to send to: Node ends this process. */
function send(message: FromWorker, onSent: () => void = () => {}): void {
  process.send?.(message, undefined, undefined, onSent)
}
