import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makePlot } from './plot.js'
import { withFigures } from './readme-figures.js'
import { makeReport } from './report.js'
import { makePostgresReport } from './report-postgres.js'

/** @typedef {import('./run-benchmark.js').Measured} Measured */

/** The report that the README quotes. */
export const latest = 'latest'
export const latestPostgres = 'postgres'

/**
 * Writes the figures of a run with their report and its plot.
 *
 * @param {string} directory
 * @param {string} name of the files
 * @param {Measured} record
 * @returns {Promise<string>} the path of the report
 */
export function writeReport(directory, name, record) {
  return writeFiles(directory, name, record, { plot: makePlot(record), report: makeReport(record, filesOf(name)) })
}

/** @param {string} directory @param {string} name @param {import('./report-postgres.js').MeasuredPostgres} record */
export function writePostgresReport(directory, name, record) {
  return writeFiles(directory, name, record, { report: makePostgresReport(record, filesOf(name)) })
}

/**
 * Writes the newest reports once more from their figures, and what the README quotes.
 *
 * @param {string} directory with the reports
 * @param {string} readme its path
 */
export async function rewriteReports(directory, readme) {
  /** @type {Measured} */
  const record = await readRecord(directory, latest)
  await writeReport(directory, latest, record)
  await writePostgresReport(directory, latestPostgres, await readRecord(directory, latestPostgres))
  await writeFile(readme, withFigures(await readFile(readme, 'utf8'), record))
}

/** @param {string} directory @param {string} name */
async function readRecord(directory, name) {
  return JSON.parse(await readFile(join(directory, filesOf(name).raw), 'utf8'))
}

/** The names of the files beside a report. @param {string} name */
export function filesOf(name) {
  return { plot: `${name}.svg`, raw: `${name}.json` }
}

/** @param {string} directory @param {string} name @param {unknown} record @param {{ report: string, plot?: string }} texts */
async function writeFiles(directory, name, record, { report, plot }) {
  const files = filesOf(name)
  const path = join(directory, `${name}.md`)
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, files.raw), `${JSON.stringify(record, null, 1)}\n`)
  if (plot !== undefined) await writeFile(join(directory, files.plot), plot)
  await writeFile(path, report)
  return path
}
