import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { formatTable } from '@ingest/bench/format'
import { describeMachine } from '@ingest/bench/machine'

const tracedBatchesMax = 20

/**
 * @param {import('./site/site.js').Site} site
 * @param {{ configuration: Record<string, unknown>, skipped: readonly string[], seconds: number, compared: Record<string,
 *   unknown>, ledgerPath: string }} options
 */
export async function createReport({ run, ledger }, { configuration, skipped, seconds, compared, ledgerPath }) {
  /** @param {(batch: import('./checks/ledger.js').Batch) => number} count */
  const total = (count) => ledger.batches.reduce((sum, batch) => sum + count(batch), 0)
  /** Several checks may find the same loss. @type {Map<unknown, number>} */
  const lost = new Map()
  for (const violation of run.violations) {
    lost.set(violation.batch, Math.max(lost.get(violation.batch) ?? 0, Number(violation.lost ?? 0)))
  }
  /** @param {RegExp} check */
  const found = (check) => run.violations.filter((violation) => check.test(violation.check)).length
  return {
    ok: run.violations.length === 0,
    configuration,
    machine: describeMachine(run.directory),
    seconds,
    events: {
      sent: total(({ tries, valid }) => (tries > 0 ? valid : 0)),
      acknowledged: total(({ acknowledgedAt, valid }) => (acknowledgedAt < Infinity ? valid : 0)),
      requestsOfBatches: total(({ tries }) => tries),
      lost: [...lost.values()].reduce((sum, count) => sum + count, 0),
      doubled: found(/stored once|accepted once/),
      hung: found(/ends$/),
    },
    counts: run.counts,
    maxima: run.maxima,
    compared,
    skipped,
    violations: await traceBatches(run.violations, ledgerPath),
    directory: run.directory,
  }
}

/** Adds to each violation the records of its batch. @param {readonly import('./site/run.js').Violation[]} violations @param {string} path */
async function traceBatches(violations, path) {
  /** @type {Map<number, unknown[]>} */
  const traces = new Map()
  for (const { batch } of violations) {
    if (typeof batch === 'number' && traces.size < tracedBatchesMax) traces.set(batch, [])
  }
  if (traces.size === 0) return violations
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const number = Number(/"batch":(\d+)/.exec(line)?.[1])
    traces.get(number)?.push(JSON.parse(line))
  }
  return violations.map((violation) => ({ ...violation, ledger: traces.get(Number(violation.batch)) }))
}

/** Formats a report as Markdown. @param {Awaited<ReturnType<typeof createReport>>} report */
export function formatReport({ ok, configuration, machine, seconds, events, counts, maxima, ...rest }) {
  const { compared, skipped, violations, directory } = rest
  /** @param {Record<string, unknown>} object */
  const rows = (object) => Object.entries(object).map(([name, value]) => [name, format(value)])
  /** @param {string} title @param {Record<string, unknown>} object */
  const table = (title, object) => (Object.keys(object).length > 0 ? [formatTable([title, ''], rows(object)), ''] : [])
  return [
    `# Soak: ${ok ? 'no violation' : `${violations.length} VIOLATIONS`} in ${Math.round(seconds)} s`,
    '',
    ...table('events', events),
    ...table('configuration', configuration),
    ...table('machine', Object.fromEntries(machine.map(({ label, value }) => [label, value]))),
    ...Object.entries(counts).flatMap(([group, values]) => table(group, values)),
    ...table('largest', maxima),
    ...table('compared at the end', compared),
    ...(skipped.length > 0 ? ['Skipped:', '', ...skipped.map((reason) => `- ${reason}`), ''] : []),
    ...violations
      .slice(0, 20)
      .map(({ check, ...details }) => `- **${check}**: ${JSON.stringify(details).slice(0, 600)}`),
    '',
    `seed ${configuration.seed}, files in ${directory}`,
  ].join('\n')
}

/** @param {unknown} value */
function format(value) {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
