/** Random choices from a seed, for tests that repeat them. */
export function createRandom(seed: number) {
  let state = seed

  /** An integer from 0 to `below` - 1: mulberry32 of Tommy Ettinger, public domain. */
  function number(below: number): number {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return Math.floor((((x ^ (x >>> 14)) >>> 0) / 2 ** 32) * below)
  }

  return {
    number,
    oneOf: <Value>(values: readonly Value[]) => values[number(values.length)] as Value,
    list: <Value>(most: number, make: () => Value) => Array.from({ length: number(most + 1) }, make),
  }
}

export type Random = ReturnType<typeof createRandom>

/** The seeds of a run: `INGEST_SEEDS=20000` takes more of them, `INGEST_FIRST_SEED=1234` begins at another. */
export function seeds(byDefault: number): number[] {
  const first = Number(process.env.INGEST_FIRST_SEED ?? 1)
  return Array.from({ length: Number(process.env.INGEST_SEEDS ?? byDefault) }, (_, i) => first + i)
}
