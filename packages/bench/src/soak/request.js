import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** A hung request is one without an end of its response by then. */
export const deadlineMs = 60_000

/**
 * @typedef {object} Response
 * @property {number} status 0 without a whole response
 * @property {Buffer} body
 * @property {string} [error]
 */

/**
 * One request to a server, which ends in any case. A broken connection of a server that was not signalled to end, a
 * status of a bug and a hung request are violations.
 *
 * @param {import('./run.js').Run} run
 * @param {import('./servers.js').Incarnation} server
 * @param {{ method: string, path: string, headers: Record<string, string>, body?: Buffer }} options
 * @returns {Promise<Response>}
 */
export async function request(run, server, options) {
  const startedAt = Date.now()
  const response = await exchange(server, options)
  const elapsedMs = Date.now() - startedAt
  const { status, error, body } = response
  run.count(`${options.method} ${options.path.replace(/\?.*/, '')}`, status || `${error}`)
  if (status !== 0) run.keepMax('response, ms', elapsedMs)
  const details = { server: server.id, method: options.method, path: options.path, elapsedMs }
  if (error === 'deadline') run.violate('every request ends', details)
  else if (error !== undefined && !server.isEnding) {
    // the end of the process may be noticed just after the end of its connections
    await new Promise((resolve) => setTimeout(resolve, 200))
    if (!server.isEnding) run.violate('connections of a running server do not break', { ...details, error })
  } else if (status >= 500 && status !== 503) {
    run.violate('no response says that something is broken', {
      ...details,
      status,
      body: body.toString().slice(0, 500),
    })
  }
  return response
}

/** @param {import('./servers.js').Incarnation} server @param {Parameters<typeof request>[2]} options @returns {Promise<Response>} */
async function exchange({ port }, { body, ...options }) {
  const signal = AbortSignal.timeout(deadlineMs)
  try {
    // a connection of its own, which no server closes as idle at the moment at which it is used again; the `fetch` of
    // Node.js 20 sometimes stops to read a body, and never notices the end of the connection
    const sent = httpRequest({ host: '127.0.0.1', port, agent: false, signal, ...options })
    sent.on('error', () => {})
    sent.end(body)
    const [response] = await once(sent, 'response')
    return { status: response.statusCode, body: await buffer(response) }
  } catch (error) {
    return { status: 0, body: Buffer.alloc(0), error: signal.aborted ? 'deadline' : reasonOf(error) }
  }
}

/** @param {unknown} error */
function reasonOf(error) {
  const { code, message } = /** @type {NodeJS.ErrnoException} */ (error)
  return code ?? message
}
