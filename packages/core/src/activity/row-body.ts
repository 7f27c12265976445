import { activityBodyBytesMax } from '../store-types.ts'
import { type CauseCounts, type Counts, causesKept, mostCauses, mostNames, namesKept, samplesMax } from './counts.ts'

/** The content of a row of outcomes. */
export interface OutcomesBody {
  /** The name of the server that counted. */
  server: string
  accepted: number
  duplicates: number
  rejected: number
  /** The most frequent types, with null for the others. */
  types: NameRow[]
  builds: NameRow[]
}

/** The content of a row of rejected events. */
export interface RejectedBody {
  rejected: number
  /** The most frequent causes. */
  rejections: CauseCounts[]
}

type NameRow = [name: string | null, accepted: number, rejected: number]

/** The most bytes of each list; items that do not fit are counted with the others. Samples use the remaining bytes. */
const listBytesMax = { types: 20_480, builds: 8_192, rejections: 28_672 }

export function encodeOutcomes(server: string, counts: Counts): string {
  const { accepted, duplicates, rejected } = counts
  const named = { types: nameRows(counts, 'types'), builds: nameRows(counts, 'builds') }
  const body: OutcomesBody = { server, accepted, duplicates, rejected, ...named }
  return JSON.stringify(body)
}

export function encodeRejected(counts: Counts): string {
  const causes = mostCauses(counts.causes)
    .slice(0, causesKept)
    .map(([, cause]) => cause)
  const withoutSamples = causes.map((cause) => ({ ...cause, samples: [] }))
  const body: RejectedBody = {
    rejected: counts.rejected,
    rejections: fitting(withoutSamples, listBytesMax.rejections),
  }
  addSamples(body, causes)
  return JSON.stringify(body)
}

function nameRows(counts: Counts, named: keyof typeof namesKept): NameRow[] {
  const kept = mostNames(counts[named]).slice(0, namesKept[named])
  const rows = fitting(
    kept.map(([name, { accepted, rejected }]): NameRow => [name, accepted, rejected]),
    listBytesMax[named],
  )
  let { accepted, rejected } = counts
  for (const row of rows) {
    accepted -= row[1]
    rejected -= row[2]
  }
  return accepted + rejected > 0 ? [...rows, [null, accepted, rejected]] : rows
}

/** As many of the first items as fit. */
function fitting<T>(items: readonly T[], bytesMax: number): T[] {
  let bytes = 0
  const end = items.findIndex((item) => {
    bytes += bytesOf(item)
    return bytes > bytesMax
  })
  return items.slice(0, end === -1 ? items.length : end)
}

/** The bytes of the JSON of a value and a comma. */
function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value)) + 1
}

/**
 * Adds the first sample of each cause, then the second of each. A sample that is too large loses its text, or is left
 * out.
 */
function addSamples(body: RejectedBody, causes: readonly CauseCounts[]): void {
  let left = activityBodyBytesMax - bytesOf(body)
  for (let index = 0; index < samplesMax; index++) {
    for (const [i, cause] of body.rejections.entries()) {
      const sample = causes[i]?.samples[index]
      if (!sample) continue
      const { event: _, ...withoutText } = sample
      const fit = [sample, withoutText].find((each) => bytesOf(each) <= left)
      if (!fit) continue
      cause.samples.push(fit)
      left -= bytesOf(fit)
    }
  }
}
