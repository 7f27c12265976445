import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** Creates metrics in a registry. */
export interface MetricFactory {
  counter<Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label>
  gauge<Label extends string>(name: string, help: string, ...labelNames: Label[]): Gauge<Label>
  histogram<Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    ...labelNames: Label[]
  ): Histogram<Label>
}

export function metricsIn(registry: Registry): MetricFactory {
  const registers = [registry]
  return {
    counter: (name, help, ...labelNames) => new Counter({ name, help, registers, labelNames }),
    gauge: (name, help, ...labelNames) => new Gauge({ name, help, registers, labelNames }),
    histogram: (name, help, buckets, ...labelNames) => new Histogram({ name, help, registers, labelNames, buckets }),
  }
}
