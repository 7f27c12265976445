import { stat } from 'node:fs/promises'

/** @typedef {Record<string, (argument: any) => unknown>} Methods */

/**
 * Makes this process a program for `startProgram`, whose calls run `methods`. `stop` is also called when the parent process
 * ends.
 *
 * @param {Methods} methods
 */
export function serveCalls(methods) {
  /** @type {unknown} */
  let stopping
  /** @type {Methods} */
  const all = {
    ...methods,
    /** Starts the threads of Node.js, so that all later ones belong to the program. */
    ready: () => stat('.').then(() => null),
    stop: (argument) => {
      stopping ??= methods.stop?.(argument) ?? true
      return stopping
    },
  }
  process.on('message', async (/** @type {{ id: number, method: string, argument: unknown }} */ message) => {
    const { id, method, argument } = message
    try {
      const called = all[method]
      if (!called) throw new Error(`${process.argv[1]} has no ${method}`)
      process.send?.({ id, result: (await called(argument)) ?? null })
    } catch (error) {
      process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
  process.on('disconnect', async () => {
    await all.stop?.(undefined)
    process.exit()
  })
  // Ctrl-C reaches every process of a terminal, but a child ends when its parent does
  process.on('SIGINT', () => {})
}
