import { stat } from 'node:fs/promises'

/** @typedef {Record<string, (argument: any) => unknown>} Methods */

/**
 * Makes this process one that `startProgram` can start: answers its calls by `methods`. `stop`, when there is one, is
 * also called when the process that started this one has gone.
 *
 * @param {Methods} methods
 */
export function answerCalls(methods) {
  /** @type {unknown} */
  let stopping
  const all = {
    ...methods,
    /** Starts the threads that Node itself needs: those that come later are the program's own. */
    ready: () => stat('.').then(() => null),
    stop(/** @type {unknown} */ argument) {
      stopping ??= methods.stop?.(argument) ?? true
      return stopping
    },
  }
  process.on('message', async (/** @type {{ id: number, method: string, argument: unknown }} */ message) => {
    const { id, method, argument } = message
    try {
      const called = /** @type {Methods} */ (all)[method]
      if (!called) throw new Error(`${process.argv[1]} has no ${method}`)
      process.send?.({ id, result: (await called(argument)) ?? null })
    } catch (error) {
      process.send?.({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  })
  process.on('disconnect', async () => {
    await all.stop(undefined)
    process.exit()
  })
  // Ctrl-C reaches every process of a terminal; they end when the one that started them does
  process.on('SIGINT', () => {})
}
