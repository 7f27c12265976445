import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Writes a report with its plot and its figures, under its own name and as the latest.
 *
 * @param {string} directory
 * @param {{ name: string, latest: string, record: unknown, report: (files: { plot: string, raw: string }) => string, plot: string }} written
 * @returns {Promise<string>} the path of the report
 */
export async function writeReport(directory, { name, latest, record, report, plot }) {
  await mkdir(directory, { recursive: true })
  const raw = `${name}.json`
  const texts = {
    [raw]: `${JSON.stringify(record, null, 1)}\n`,
    [`${name}.svg`]: plot,
    [`${name}.md`]: report({ plot: `${name}.svg`, raw }),
    [`${latest}.svg`]: plot,
    [`${latest}.md`]: report({ plot: `${latest}.svg`, raw }),
  }
  for (const [file, text] of Object.entries(texts)) await writeFile(join(directory, file), text)
  return join(directory, `${name}.md`)
}
