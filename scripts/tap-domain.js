import { executionAsyncResource } from 'node:async_hooks'

// Takes the place of tap's package async-hook-domain, which finds the test of an uncaught error with hooks on every promise
// and handle: a third of the processor time of asynchronous tests. Here it is the innermost test that runs: the tests
// of a file run one after another, and in a file with `t.jobs` a neighbour may report the error.

/** @typedef {(error: unknown, origin: string) => void} OnError */

/** Those of the tests that have not ended, the outer ones first. */
/** @type {Domain[]} */
const domains = []

/** @type {NodeJS.UncaughtExceptionListener} */
function onUncaught(error, origin) {
  const running = domains.findLast(({ test }) => test?.started) ?? domains[0]
  running?.onerror(error, origin)
}

/** Receives the uncaught errors of one test, until it is destroyed. */
export class Domain {
  /** @param {OnError} onerror */
  constructor(onerror) {
    this.onerror = onerror
    /** The test in whose scope tap creates its domain. */
    this.test = /** @type {{ test?: { started: boolean } }} */ (executionAsyncResource()).test
    if (domains.length === 0) process.on('uncaughtException', onUncaught)
    domains.push(this)
  }

  destroy() {
    const index = domains.indexOf(this)
    if (index === -1) return
    domains.splice(index, 1)
    if (domains.length === 0) process.off('uncaughtException', onUncaught)
  }
}
