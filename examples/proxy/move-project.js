// Moves a project from one cluster of clusters.cfg to another while it receives events:
//
//   node move-project.js --project demo --from one --from-store postgres://ingest@one.example/games \
//     --to two --to-store postgres://ingest@two.example/games
//
// Requests of the project get a 503 with Retry-After while the last events are copied. If a step fails, they go to the
// old cluster again. With several HAProxies, all must
// complete a step before any begins the next.
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

/** Sends one command to HAProxy. @param {string} command */
async function haproxy(command) {
  const connection = connect(socket)
  connection.end(`${command}\n`)
  return text(connection)
}

/** Sends the requests of the project to another backend, also after a restart of HAProxy. @param {string} backend */
async function route(backend) {
  const others = readFileSync(map, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && line.split(' ')[0] !== project)
  writeFileSync(`${map}.new`, `${[...others, `${project} ${backend}`].join('\n')}\n`)
  renameSync(`${map}.new`, map)
  if ((await haproxy(`set map ${map} ${project} ${backend}`)).trim() !== '') {
    const refusal = (await haproxy(`add map ${map} ${project} ${backend}`)).trim()
    if (refusal !== '') throw new Error(refusal)
  }
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

/** Resolves when the requests that are older than `since` have ended. @param {string} backend @param {number} since */
async function untilEnded(backend, since) {
  while ((await agesIn(backend)).some((age) => (age + 1) * 1000 >= Date.now() - since)) await sleep(pollMs)
}

/** Twice, as a request may be on its way to the backend at the first look. @param {string} backend */
async function untilEmpty(backend) {
  for (let empty = 0; empty < 2; ) {
    await sleep(pollMs)
    empty = (await agesIn(backend)).length === 0 ? empty + 1 : 0
  }
}

const source = await openPostgresStore(values['from-store'])
const target = await openPostgresStore(values['to-store'])
try {
  const copy = () => copyStores(source, target, { projectIds: [project], hasOneOrder: false })
  // most events are copied before, so that the last copy is short
  console.log(await copy())
  await route(`${from}-before-move`)
  await untilEnded(from, Date.now())
  console.log(await copy())
  await route('moving')
  const closedAt = Date.now()
  await untilEmpty(`${from}-before-move`)
  // from here on, no event of the project is acknowledged
  console.log(await copy())
  await route(to)
  console.log(`closed for ${Date.now() - closedAt} ms`)
} catch (error) {
  await route(from)
  throw error
} finally {
  await Promise.all([source.close(), target.close()])
}
