import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { checkPowerLoss } from '../power-loss/check-power-loss.js'
import { recordWorkload } from '../power-loss/record.js'

const imagesPerLog = 40
const pauseMs = 5000

/**
 * Repeatedly records the power-loss workload, and opens disks as a power loss could leave them.
 *
 * @param {import('../site/site.js').Site} site
 */
export async function runPowerLosses({ run }) {
  const random = run.random('power losses')
  const signal = run.stopping
  while (!signal.aborted) {
    const seed = random.integer(0, 1_000_000)
    const directory = join(run.directory, `power-loss-${seed}`)
    mkdirSync(directory)
    try {
      const recorded = await recordWorkload(directory, { signal })
      const options = { ...recorded, directory, seed, images: imagesPerLog, endsAtFirst: true, signal }
      const { problems, counts } = await checkPowerLoss(options)
      for (const [phase, { images }] of Object.entries(counts)) run.count('disks after a power loss', phase, images)
      for (const problem of problems) run.violate('a power loss costs nothing', { directory, seed, ...problem })
      if (problems.length === 0) rmSync(directory, { recursive: true })
    } catch (error) {
      if (!signal.aborted) throw error
    }
    await run.pause(pauseMs)
  }
}
