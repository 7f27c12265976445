import { activityBodyBytesMax } from '../store-types.ts'
import {
  type Counts,
  causesKept,
  mostCauses,
  mostNames,
  type NameCounts,
  namesKept,
  type RejectionCounts,
  samplesMax,
} from './counts.ts'

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
  rejections: RejectionCounts[]
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
  const causes = mostCauses(counts.rejections)
    .slice(0, causesKept)
    .map(({ cause }) => ({ ...cause, samples: [] }))
  const body: RejectedBody = { rejected: counts.rejected, rejections: fitting(causes, listBytesMax.rejections) }
  addSamples(body, counts)
  return JSON.stringify(body)
}

function nameRows(counts: Counts, named: keyof typeof namesKept): NameRow[] {
  const { kept, rest } = mostNames(counts[named], namesKept[named])
  const rows = kept.map(([name, { accepted, rejected }]): NameRow => [name, accepted, rejected])
  const fit = fitting(rows, listBytesMax[named])
  const others = rows
    .slice(fit.length)
    .reduce<NameCounts>(
      (sum, [, accepted, rejected]) => ({ accepted: sum.accepted + accepted, rejected: sum.rejected + rejected }),
      rest,
    )
  return others.accepted + others.rejected > 0 ? [...fit, [null, others.accepted, others.rejected]] : fit
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
function addSamples(body: RejectedBody, counts: Counts): void {
  let left = activityBodyBytesMax - bytesOf(body)
  const causes = mostCauses(counts.rejections)
  for (let index = 0; index < samplesMax; index++) {
    for (const [i, cause] of body.rejections.entries()) {
      const sample = causes[i]?.cause.samples[index]
      if (!sample) continue
      const { event: _, ...withoutText } = sample
      const fit = [sample, withoutText].find((each) => bytesOf(each) <= left)
      if (!fit) continue
      cause.samples.push(fit)
      left -= bytesOf(fit)
    }
  }
}
