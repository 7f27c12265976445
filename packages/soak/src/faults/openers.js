import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { contentOf } from '../load/batch-content.js'
import { runCommand } from '../load/run-command.js'

/** @typedef {import('../site/site.js').Site} Site */
/** @typedef {import('../site/run.js').Random} Random */

const keysMax = 50
const recentBatches = 20
/** Servers on a database cache the keys of a project for a second. */
const keyCacheMs = 3000

/**
 * Runs short commands one after another. Each opens and closes the store while the servers commit.
 *
 * @param {Site} site @param {string} name
 */
export async function runOpeners(site, name) {
  const random = site.run.random(name)
  while (!site.run.stopping.aborted) {
    const command = random.weighted([
      [stats, 30],
      [find, 25],
      [createKey, 10],
      [listKeys, 4],
      [listMaps, 4],
      [listBuilds, 4],
      [send, 20],
    ])
    await command(site, random, name)
    await site.run.pause(random.integer(0, 50))
  }
}

/** Runs a command whose opening of the store is slowed in most cases. @param {Site} site @param {Random} random @param {readonly string[]} args */
function runSlowly(site, random, args) {
  return runCommand(site, args, {
    random,
    allowed: args[0] === 'find' ? [3] : [],
    killProbability: 0.1,
    slowProbability: 0.8,
  })
}

/** @param {Site} site @param {Random} random */
async function stats(site, random) {
  const before = new Map(Object.values(site.projects).map((id) => [id, site.ledger.countsOf(id).acknowledged]))
  const { isDone, json } = await runSlowly(site, random, ['stats', '--json'])
  if (!isDone) return
  for (const [projectId, acknowledged] of before) {
    const stored = json.projects.find((/** @type {any} */ project) => project.projectId === projectId)?.events ?? 0
    const { sent } = site.ledger.countsOf(projectId)
    if (stored < acknowledged || stored > sent) {
      site.run.violate('acknowledged ≤ events of stats ≤ sent', { projectId, acknowledged, stored, sent })
    }
  }
}

/** @param {Site} site @param {Random} random */
async function find(site, random) {
  const { acknowledged } = site.ledger
  if (acknowledged.length === 0) return
  const first = random.chance(0.7) ? Math.max(0, acknowledged.length - recentBatches) : 0
  const batch = random.pick(acknowledged.slice(first))
  const ids = contentOf(site.run.seed, batch, 0).events.flatMap(({ id }) => (id === undefined ? [] : [id]))
  if (ids.length === 0) return
  const id = random.pick(ids)
  const { number, projectId } = batch
  const { code } = await runSlowly(site, random, ['find', id, '--project', projectId, '--json'])
  if (code === 3) site.run.violate('an acknowledged event is found', { id, batch: number, projectId })
}

/** Creates a key. The senders use it from then on, so it must stay valid. @param {Site} site @param {Random} random */
async function createKey(site, random) {
  const projectId = random.pick(Object.values(site.projects))
  const keys = site.keys.get(projectId) ?? []
  if (keys.length >= keysMax) return
  const { isDone, json } = await runSlowly(site, random, ['keys', 'create', '--project', projectId, '--json'])
  if (!isDone) return
  await site.run.pause(site.isPostgres ? keyCacheMs : 0)
  keys.push(json.key)
}

/** @param {Site} site @param {Random} random */
async function listKeys(site, random) {
  const projectId = random.pick(Object.values(site.projects))
  const known = site.keys.get(projectId)?.length ?? 0
  const { isDone, json } = await runSlowly(site, random, ['keys', 'list', '--project', projectId, '--json'])
  const listed = json?.keys?.length
  if (isDone && listed < known) site.run.violate('created keys are listed', { projectId, known, listed })
}

/** @param {Site} site @param {Random} random */
async function listMaps(site, random) {
  await runSlowly(site, random, ['maps', 'list', '--project', site.projects.plain, '--json'])
}

/** @param {Site} site @param {Random} random */
async function listBuilds(site, random) {
  await runSlowly(site, random, ['stats', '--builds', '--project', site.projects.plain, '--json'])
}

/** Stores a batch with a command instead of a server. @param {Site} site @param {Random} random @param {string} name */
async function send(site, random, name) {
  if (site.isFull) return
  const { run, ledger, projects } = site
  const buildId = `build-${random.integer(1, 40)}`
  const batch = ledger.addBatch({ projectId: projects.plain, player: -1, buildId, isPlain: true })
  const file = join(run.directory, `${name}.ndjson`)
  const { events } = contentOf(run.seed, batch, 0)
  writeFileSync(file, events.map(({ text }) => `${text}\n`).join(''))
  const sending = ledger.begin(batch, { process: 'send', variant: 0, purpose: 'command' })
  const { isDone, json } = await runSlowly(site, random, ['send', file, '--project', projects.plain, '--json'])
  const { accepted, duplicates, rejected } = json ?? {}
  ledger.end(sending, isDone ? { status: 202, accepted, duplicates, rejected } : { status: 0, error: 'command' })
  if (isDone && accepted !== batch.valid) {
    run.violate('new events are accepted', { batch: batch.number, accepted, duplicates, rejected, valid: batch.valid })
  }
}
