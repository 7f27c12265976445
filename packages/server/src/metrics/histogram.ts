import type { Metric } from 'prom-client'

export interface HistogramOptions {
  name: string
  help: string
  labelName?: string
  /** Upper bounds, ascending. */
  buckets: readonly number[]
}

/** A histogram of a registry of prom-client, with one label or none. */
export interface FastHistogram {
  /** Counts a value. `label` must be one of a small set. */
  observe(value: number, label?: string): void
  metric: Metric
}

interface Cell {
  /** One for each bucket, and one for larger values. */
  counts: number[]
  sum: number
}

/**
 * A histogram whose `observe` takes about 20 ns. That of prom-client takes 300, since it hashes the labels of each
 * value, and a batch has seven.
 */
export function createHistogram({ name, help, labelName, buckets }: HistogramOptions): FastHistogram {
  const cells = new Map<string, Cell>()
  const newCell = (label: string): Cell => {
    const cell = { counts: new Array(buckets.length + 1).fill(0), sum: 0 }
    cells.set(label, cell)
    return cell
  }
  if (labelName === undefined) newCell('')

  function valuesOf([label, { counts, sum }]: [string, Cell]) {
    const labels = labelName === undefined ? {} : { [labelName]: label }
    let count = 0
    const cumulative = counts.map((each, i) => {
      count += each
      return { metricName: `${name}_bucket`, labels: { le: buckets[i] ?? '+Inf', ...labels }, value: count }
    })
    return [
      ...cumulative,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: count },
    ]
  }

  const metric = {
    name,
    async get() {
      return { name, help, type: 'histogram', values: [...cells].flatMap(valuesOf) }
    },
  }
  return {
    observe(value, label = '') {
      const cell = cells.get(label) ?? newCell(label)
      let at = 0
      while (at < buckets.length && value > (buckets[at] as number)) at++
      cell.counts[at] = (cell.counts[at] as number) + 1
      cell.sum += value
    },
    // what a registry needs of a metric
    metric: metric as unknown as Metric,
  }
}
