// Moves a project from one cluster of clusters.cfg to another while it receives events:
//
//   node move-project.js --project demo --from one --from-store postgres://ingest@one.example/games \
//     --to two --to-store postgres://ingest@two.example/games
//
// Requests of the project get a 503 with Retry-After while the last events are copied. If a step fails or Ctrl-C is
// pressed, they go to the old cluster again. With several HAProxies, all must complete a step before any begins the next.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { copyStores } from '@ingest/core'
import { openPostgresStore } from '@ingest/postgres'

const { values } = parseArgs({
  options: {
    project: { type: 'string', default: '' },
    from: { type: 'string', default: 'one' },
    to: { type: 'string', default: 'two' },
    'from-store': { type: 'string', default: '' },
    'to-store': { type: 'string', default: '' },
    socket: { type: 'string', default: '/run/haproxy/admin.sock' },
    map: { type: 'string', default: '/etc/haproxy/projects.map' },
  },
})
const { project, from, to, socket, map } = values
const pollMs = 200
/** How long the project may get 503 before the move fails. */
const closedMsMax = 30_000
const stopping = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => stopping.abort(new Error(name)))

/** Sends one command to HAProxy. @param {string} command */
async function haproxy(command) {
  const connection = connect(socket)
  connection.end(`${command}\n`)
  return (await text(connection)).trim()
}

const readMap = () =>
  readFileSync(map, 'utf8')
    .split('\n')
    .filter((line) => line !== '')

/** Persists the route for the next start of HAProxy. @param {string} backend */
function writeMap(backend) {
  const others = readMap().filter((line) => line.split(' ')[0] !== project)
  writeFileSync(`${map}.new`, `${[...others, `${project} ${backend}`].join('\n')}\n`)
  renameSync(`${map}.new`, map)
}

/** Sends the requests of the project to a backend. @param {string} backend */
async function route(backend) {
  const refusal =
    (await haproxy(`set map ${map} ${project} ${backend}`)) && (await haproxy(`add map ${map} ${project} ${backend}`))
  if (refusal) throw new Error(refusal)
  console.log(`${new Date().toISOString()} ${project} → ${backend}`)
}

/** The ages of the requests in flight to a backend, in seconds. @param {string} backend */
async function agesIn(backend) {
  const sessions = (await haproxy('show sess')).split('\n').filter((line) => line.includes(` be=${backend} `))
  return sessions.map((line) => {
    const [, d = 0, h = 0, m = 0, s = 0] = / age=(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?/.exec(line) ?? []
    return ((Number(d) * 24 + Number(h)) * 60 + Number(m)) * 60 + Number(s)
  })
}

/**
 * Resolves when the requests that are older than `since` have ended.
 *
 * @param {string} backend
 * @param {number} since
 * @param {AbortSignal} signal
 */
async function untilEnded(backend, since, signal) {
  const isOlder = (/** @type {number} */ age) => (age + 1) * 1000 >= Date.now() - since
  while ((await agesIn(backend)).some(isOlder)) await sleep(pollMs, undefined, { signal })
}

/**
 * Looks twice, as a request may be on its way to the backend at the first look.
 *
 * @param {string} backend
 * @param {AbortSignal} signal
 */
async function untilEmpty(backend, signal) {
  for (let empty = 0; empty < 2; ) {
    await sleep(pollMs, undefined, { signal })
    empty = (await agesIn(backend)).length === 0 ? empty + 1 : 0
  }
}

/** @param {AbortSignal} signal */
async function move(signal) {
  const source = await openPostgresStore(values['from-store'])
  const target = await openPostgresStore(values['to-store'])
  const copy = async () =>
    console.log(await copyStores(source, target, { projectIds: [project], hasOneOrder: false, signal }))
  /** @type {NodeJS.Timeout | undefined} */
  let deadline
  try {
    // most events are copied before, so that the last copy is short
    await copy()
    await route(`${from}-before-move`)
    await untilEnded(from, Date.now(), signal)
    await copy()
    const closedAt = Date.now()
    // AbortSignal.any references its signals weakly: Node.js 20 collects an AbortSignal.timeout, which then never aborts
    deadline = setTimeout(
      () => stopping.abort(new Error(`it was closed for ${closedMsMax / 1000} seconds`)),
      closedMsMax,
    )
    writeMap('moving')
    await route('moving')
    await untilEmpty(`${from}-before-move`, signal)
    // from here on, no event of the project is acknowledged
    await copy()
    // before the switch: a restart of HAProxy must not route the project back
    writeMap(to)
    await route(to)
    console.log(`closed for ${Date.now() - closedAt} ms`)
  } finally {
    clearTimeout(deadline)
    await Promise.all([source.close(), target.close()])
  }
}

// if the named backend is missing, HAProxy routes to the default one
const backends = (await haproxy('show backend')).split('\n')
const missing = [from, `${from}-before-move`, to].find((name) => !backends.includes(name))
if (missing) throw new Error(`HAProxy has no backend ${missing}`)
const current =
  readMap()
    .map((line) => line.split(' '))
    .find(([name]) => name === project)?.[1] ?? from
if (![from, 'moving'].includes(current)) throw new Error(`${project} is in ${current}, not in ${from}`)
// fails now rather than during the move if the file cannot be written
writeMap(current)
try {
  await move(stopping.signal)
} catch (error) {
  console.error(`${project} stays in ${from}: ${stopping.signal.reason ?? error}`)
  process.exitCode = 1
  await route(from)
  writeMap(from)
}
