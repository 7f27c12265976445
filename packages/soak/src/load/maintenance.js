import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { createExportCheck, readExport } from '../checks/read-export.js'
import { runCommand } from './run-command.js'

/** @typedef {import('../site/site.js').Site} Site */
/** @typedef {import('../site/run.js').Random} Random */

const attemptsMax = 6

/** Runs longer commands one after another. @param {Site} site */
export async function runMaintenance(site) {
  const { run, isPostgres } = site
  const random = run.random('maintenance')
  while (!run.stopping.aborted) {
    const command = random.weighted([
      [erase, 6],
      [retain, 3],
      [backUp, isPostgres ? 0 : 3],
      [verify, isPostgres ? 0 : 2],
      [exportAll, 3],
      [exportFiles, 3],
      [copy, 2],
    ])
    const startedAt = Date.now()
    await command(site, random)
    // commands take longer as the store grows, so the pauses between them grow too
    await run.pause(random.integer(100, 1000) + (Date.now() - startedAt) / 2)
  }
}

/** Retires a player and repeats the erasure of its events until it completes. @param {Site} site @param {Random} random */
async function erase(site, random) {
  const player = ++site.lastPlayer
  const state = site.ledger.players.get(player)
  if (!state) return
  state.isRetired = true
  while (state.inFlight > 0 && !site.run.stopping.aborted) await site.run.pause(10)
  for (let i = 0; i < attemptsMax && !site.run.stopping.aborted; i++) {
    if (await erasePlayer(site, player, random)) return
  }
}

/** @param {Site} site @param {number} player @param {Random} [random] */
export async function erasePlayer(site, player, random) {
  const args = ['erase', '--project', site.projects.erased, '--player', String(player), '--yes', '--json']
  const { isDone } = await runCommand(site, args, { ...(random && { random, killProbability: 0.35 }) })
  const state = site.ledger.players.get(player)
  if (isDone && state) state.erasedAt = Date.now()
  return isDone
}

/** @param {Site} site @param {Random} random */
async function retain(site, random) {
  const { retention, projects } = site
  const startedAt = Date.now()
  const age = `${retention.olderThanMs / 1000}s`
  const args = ['erase', '--project', projects.aged, '--older-than', age, '--yes', '--json']
  const { isDone } = await runCommand(site, args, { random, killProbability: 0.3 })
  if (isDone) retention.isErasedBefore = Math.max(retention.isErasedBefore, startedAt - retention.olderThanMs)
}

/** Verifies a backup, then compares it or a store restored from it with the ledger. @param {Site} site @param {Random} random */
async function backUp(site, random) {
  const backup = join(site.run.directory, 'backup')
  const restored = join(site.run.directory, 'restored')
  const since = Date.now()
  const { isDone } = await runCommand(site, ['backup', backup, '--quiet'], { random, killProbability: 0.3 })
  if (isDone) {
    await runCommand(site, ['verify', '--store', backup, '--quiet'])
    const isRestored = random.chance(0.5)
    if (isRestored) await runCommand(site, ['restore', backup, '--store', restored, '--json'])
    for (const projectId of Object.values(site.projects)) {
      await readExport(site, { projectId, since, store: isRestored ? restored : backup })
    }
  }
  if (site.run.violations.length > 0) return
  remove(restored)
  remove(backup)
}

/** @param {Site} site @param {Random} random */
async function verify(site, random) {
  await runCommand(site, ['verify', '--json'], { random })
}

/** @param {Site} site @param {Random} random */
async function exportAll(site, random) {
  await readExport(site, { projectId: random.pick(Object.values(site.projects)), random })
}

/** Continues the export files of one project, even if the run before was killed. @param {Site} site @param {Random} random */
async function exportFiles(site, random) {
  const args = ['export', '--project', site.projects.plain, '--output', join(site.run.directory, 'export'), '--json']
  await runCommand(site, [...args, '--max-size', '8M'], { random, killProbability: 0.5 })
}

/** The export files of all runs hold each event once. @param {Site} site @param {number} stored */
export async function checkExportFiles(site, stored) {
  const directory = join(site.run.directory, 'export')
  const projectId = site.projects.plain
  await runCommand(site, ['export', '--project', projectId, '--output', directory, '--json'])
  const check = createExportCheck(site, { projectId, source: directory, startedAt: -Infinity })
  const files = readdirSync(directory).filter((name) => name.endsWith('.ndjson'))
  for (const file of files.sort()) {
    for (const line of readFileSync(join(directory, file), 'utf8').split('\n')) if (line !== '') check.add(line)
  }
  if (check.events !== stored) {
    site.run.violate('exported files hold each event once', { directory, exported: check.events, stored })
  }
}

/** Copies a project to a new store, and repeats the command until it completes. @param {Site} site @param {Random} random */
async function copy(site, random) {
  const target = join(site.run.directory, 'copy')
  const since = Date.now()
  const projectId = site.projects.plain
  for (let i = 0; i < attemptsMax && !site.run.stopping.aborted; i++) {
    const args = ['copy', '--from', site.store, '--to', target, '--project', projectId, '--json']
    // exit code 7: a map changed during the copy
    if (!(await runCommand(site, args, { random, killProbability: 0.4, allowed: [7] })).isDone) continue
    await readExport(site, { projectId, since, store: target })
    break
  }
  if (site.run.violations.length === 0) remove(target)
}

/** Removes a directory, and what a killed backup left beside it. @param {string} directory */
function remove(directory) {
  const parent = dirname(directory)
  for (const name of readdirSync(parent)) {
    if (name.startsWith(basename(directory))) rmSync(join(parent, name), { recursive: true, force: true })
  }
}
