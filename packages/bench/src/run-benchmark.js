import { measureGrowth, recoveryStore } from './measure-growth.js'
import { measureLatency } from './measure-latency.js'
import { measureMixed } from './measure-mixed.js'
import { measureRecovery } from './measure-recovery.js'
import { measureSend } from './measure-send.js'
import { measureThroughput } from './measure-throughput.js'
import { measureUploads } from './measure-uploads.js'

/**
 * Everything that was measured.
 *
 * @typedef {object} Results
 * @property {Awaited<ReturnType<typeof measureThroughput>>} [throughput]
 * @property {Awaited<ReturnType<typeof measureMixed>>} [mixed]
 * @property {import('./measure-growth.js').Growth} [growth]
 * @property {import('./measure-latency.js').Latency} [latency]
 * @property {import('./measure-recovery.js').Recovery} [recovery]
 * @property {import('./measure-uploads.js').Uploads} [uploads]
 * @property {import('./measure-send.js').SendRound[] | undefined} [send]
 */

/**
 * A run of the benchmark, as it is kept beside its report.
 *
 * @typedef {object} Measured
 * @property {string} measuredAt ISO 8601
 * @property {string} command
 * @property {import('./plan.js').Plan} plan
 * @property {import('./machine.js').Fact[]} machine
 * @property {import('./machine.js').Fact[]} versions
 * @property {import('./contenders.js').Contender[]} contenders
 * @property {Results} results
 */

/**
 * Measures the parts of a plan, one after another.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<Results>} rejects at the first wrong answer
 */
export async function runBenchmark(context, plan) {
  const has = (/** @type {import('./plan.js').Part} */ part) => {
    if (plan.parts.includes(part)) context.log(`== ${part}`)
    return plan.parts.includes(part)
  }
  /** @type {Results} */
  const results = {}
  if (has('throughput')) results.throughput = await measureThroughput(context, plan)
  if (has('mixed')) results.mixed = await measureMixed(context, plan)
  if (has('growth')) results.growth = await measureGrowth(context, plan)
  const hasOurs = context.contenders.some(({ name }) => name === 'ours')
  if (hasOurs && has('latency')) results.latency = await measureLatency(context, plan, recoveryStore)
  if (hasOurs && has('recovery')) results.recovery = await measureRecovery(context, plan, recoveryStore)
  if (hasOurs && has('uploads')) results.uploads = await measureUploads(context, plan)
  if (hasOurs && has('send')) results.send = await measureSend(context, plan)
  return results
}
