import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkExportFiles, erasePlayer } from '../load/maintenance.js'
import { readMap } from '../load/maps.js'
import { runCommand } from '../load/run-command.js'
import { pickServer, sendBatch } from '../load/send-batch.js'
import { findSecrets } from './find-secrets.js'
import { mayBeErased, readExport } from './read-export.js'

/**
 * @typedef {import('../site/site.js').Site} Site
 * @typedef {import('./ledger.js').Batch} Batch
 * @typedef {import('../site/run.js').Random} Random
 * @typedef {import('./read-export.js').Exported} Exported
 */

const attemptsMax = 20
const concurrency = 8
const sampledBatches = 500
const readMapsMax = 300

/**
 * Compares the whole store with the ledger after the load, while both servers run and nothing disturbs them.
 *
 * @param {Site} site
 * @returns {Promise<Record<string, unknown>>} what was compared
 */
export async function runFinalChecks(site) {
  const random = site.run.random('final')
  const erasedPlayers = await finishErasures(site)
  await sendEach(site, uncertainBatches(site), { random, purpose: 'end: unknown' })
  const [exports, maps] = await Promise.all([
    exportAll(site),
    readMaps(site, random),
    compareBuilds(site),
    site.isPostgres ? undefined : mustEnd(site, ['verify', '--json']),
    mustEnd(site, ['copy', '--from', site.store, '--to', join(site.run.directory, 'copy-of-all'), '--json']),
  ])
  await sendAgain(site, exports, random)
  await Promise.all([compareStats(site), checkExportFiles(site, exports.get(site.projects.plain)?.events ?? 0)])
  return {
    exported: Object.fromEntries([...exports].map(([projectId, { events }]) => [projectId, events])),
    erasedPlayers,
    maps,
  }
}

/** @param {Site} site @returns {Promise<Map<string, Exported>>} by project */
async function exportAll(site) {
  /** @type {Map<string, Exported>} */
  const exports = new Map()
  await Promise.all(
    Object.values(site.projects).map(async (projectId) => {
      const exported = await readExport(site, { projectId })
      if (exported) exports.set(projectId, exported)
      else site.run.violate('the store is exported', { projectId })
    }),
  )
  return exports
}

/** @param {Site} site @param {readonly string[]} args */
async function mustEnd(site, args) {
  const { isDone, code, stderr } = await runCommand(site, args)
  if (!isDone) site.run.violate('a command succeeds while nothing disturbs it', { args, code, stderr })
}

/** Completes the erasures that were begun. Afterwards, a backup has no bytes of the erased events. @param {Site} site */
async function finishErasures(site) {
  const { run, ledger, isPostgres } = site
  const retired = [...ledger.players.values()].filter(({ isRetired }) => isRetired)
  for (const player of retired) {
    if (player.erasedAt < Infinity || (await erasePlayer(site, player.number))) continue
    run.violate('events can be erased while nothing disturbs it', { player: player.number })
  }
  if (isPostgres) return { erased: retired.length }
  const backup = join(run.directory, 'backup-of-all')
  await mustEnd(site, ['backup', backup, '--json'])
  const found = findSecrets(backup)
  rmSync(backup, { recursive: true, force: true })
  for (const { number } of retired) {
    const files = found.get(number)
    if (files) run.violate('a backup has no bytes of erased events', { player: number, files: [...files] })
  }
  return { erased: retired.length, othersFound: found.size }
}

/** Batches that may or may not be stored, without those of retired players. @param {Site} site */
function uncertainBatches({ ledger }) {
  return ledger.batches.filter(
    ({ acknowledgedAt, tries, player }) =>
      acknowledgedAt === Infinity && tries > 0 && !ledger.players.get(player)?.isRetired,
  )
}

/**
 * Events that are missing from the exports must be erased ones: sent again, they are duplicates. So is a sample of all
 * acknowledged batches.
 *
 * @param {Site} site @param {Map<string, Exported>} exports @param {Random} random
 */
async function sendAgain(site, exports, random) {
  const { acknowledged } = site.ledger
  const absent = acknowledged.filter((batch) => {
    const stored = exports.get(batch.projectId)?.countOf.get(batch.number) ?? 0
    return stored < batch.valid && mayBeErased(site, batch)
  })
  const sample = Array.from({ length: Math.min(sampledBatches, acknowledged.length) }, () => random.pick(acknowledged))
  await sendEach(site, [...absent, ...sample], { random, purpose: 'end: again' })
}

/** @param {Site} site @param {readonly Batch[]} batches @param {{ random: Random, purpose: string }} options */
async function sendEach(site, batches, { random, purpose }) {
  const queue = [...batches]
  async function sendNext() {
    for (let batch = queue.shift(); batch !== undefined; batch = queue.shift()) {
      const { number, projectId } = batch
      const sent = batch
      if (await untilDone(site, random, (server) => sendBatch(site, sent, { server, random, purpose }))) continue
      site.run.violate('a batch is accepted while nothing disturbs it', { batch: number, projectId })
    }
  }
  await Promise.all(Array.from({ length: concurrency }, sendNext))
}

/**
 * Repeats an attempt at any server until its result is truthy.
 *
 * @param {Site} site @param {Random} random
 * @param {(server: import('../site/servers.js').Incarnation) => Promise<unknown>} attempt
 */
async function untilDone(site, random, attempt) {
  for (let i = 0; i < attemptsMax; i++) {
    const server = pickServer(site, random)
    if (server && (await attempt(server))) return true
    await sleep(250)
  }
  return false
}

/** Counters include every stored event once, erased ones too. @param {Site} site */
async function compareStats(site) {
  const { ledger, projects, run } = site
  const { isDone, json } = await runCommand(site, ['stats', '--json'])
  if (!isDone) return run.violate('statistics are read', {})
  for (const projectId of Object.values(projects)) {
    const sent = ledger.batches.filter((batch) => batch.projectId === projectId && batch.tries > 0)
    const certain = sum(sent.filter(({ acknowledgedAt }) => acknowledgedAt < Infinity))
    const possible = sum(sent)
    const { events = 0 } = json.projects.find((/** @type {any} */ project) => project.projectId === projectId) ?? {}
    if (events < certain || events > possible) {
      run.violate('counters equal scans', { projectId, certain, possible, events })
    }
  }
}

/** @param {readonly Batch[]} batches */
function sum(batches) {
  return batches.reduce((total, { valid }) => total + valid, 0)
}

/** A build is frozen if a stored event references it. @param {Site} site */
async function compareBuilds(site) {
  await Promise.all(Object.values(site.projects).map((projectId) => compareBuildsOf(site, projectId)))
}

/** @param {Site} site @param {string} projectId */
async function compareBuildsOf(site, projectId) {
  const { isDone, json } = await runCommand(site, ['stats', '--builds', '--project', projectId, '--json'])
  if (!isDone) return
  const builds = new Map(json.builds.map((/** @type {any} */ build) => [build.buildId, build.frozenAt]))
  const acknowledged = site.ledger.acknowledged.filter((batch) => batch.projectId === projectId && batch.valid > 0)
  for (const { buildId, number } of acknowledged) {
    if (builds.get(buildId)) continue
    site.run.violate('builds of stored events are frozen', { projectId, buildId, batch: number })
  }
}

/** @param {Site} site @param {Random} random */
async function readMaps(site, random) {
  let read = 0
  for (const map of site.maps.slice(-readMapsMax)) {
    if (await untilDone(site, random, (server) => readMap(site, map, { server, random }))) read++
    else site.run.violate('a map is read while nothing disturbs it', { buildId: map.buildId })
  }
  return { published: site.maps.length, read, frozen: site.maps.filter(({ fixed }) => fixed !== undefined).length }
}
