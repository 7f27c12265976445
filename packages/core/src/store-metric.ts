import type { StoreMetric } from './store-types.ts'

/** A gauge with one value, or with one for each set of labels. */
export function storeGauge(name: string, help: string, value: number | StoreMetric['values']): StoreMetric {
  const values = typeof value === 'number' ? [{ value }] : value
  return { name: `ingest_store_${name}`, help, type: 'gauge', values }
}
