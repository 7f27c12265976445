import type { Io } from '../io.ts'
import { type RunningServer, readTls } from './listen.ts'
import type { ServeSettings } from './serve-settings.ts'

/** The settings as they are in the file now. */
export interface Reloaded {
  settings: ServeSettings
  /** The options that differ from those of the start, and apply after a restart only. */
  needRestart: readonly string[]
}

/**
 * After each SIGHUP, applies the TLS certificate and the log level of `read`, until the returned function is called. If
 * anything is invalid, an error is logged and nothing changes.
 */
export function reloadOnSignal(
  io: Io,
  { served, log, hasTls }: Pick<RunningServer, 'served' | 'log'> & { hasTls: boolean },
  read: () => Reloaded,
): () => void {
  let last = Promise.resolve()
  return io.onReload(() => {
    last = last.then(reload)
  })

  async function reload(): Promise<void> {
    try {
      const { settings, needRestart } = read()
      // the only one that can fail
      if (settings.tls && hasTls) served.reloadTls(await readTls(settings.tls))
      log.level = settings.logLevel
      log.info({ config: settings.config ?? 'none' }, 'settings reloaded')
      if (needRestart.length > 0) log.warn({ options: needRestart }, 'these settings change after a restart only')
    } catch (error) {
      log.error(`the settings were not reloaded: ${(error as Error).message.replace(/^error: /, '')}`)
    }
  }
}
