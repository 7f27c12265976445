import t from 'tap'
import {
  decideCompletion,
  decidePublication,
  isSameCut,
  type LatePublish,
  type Proposal,
} from '../../src/maps/decide-publication.ts'
import { digestOf } from '../../src/maps/digest.ts'
import type { Manifest, MapContents, MapSlot } from '../../src/store-types.ts'

/** A manifest for each letter; lower case is the same map, split into other chunks. */
function manifest(name: string): Manifest {
  const digest = digestOf(Buffer.from(name.toUpperCase()))
  const chunks =
    name === name.toUpperCase()
      ? [{ digest, size: 2 }]
      : ['1', '2'].map((n) => ({ digest: digestOf(Buffer.from(name + n)), size: 1 }))
  return { contentType: 'a/b', size: 2, digest, chunks }
}

const nameOf = (one: Manifest | undefined) =>
  ['P', 'p', 'Q', 'R'].find((name) => one && isSameCut(manifest(name), one)) ?? '-'

/** `P Q`: P is complete and Q pending; `-` is nothing. */
function slotOf(text: string, frozen: boolean): MapSlot {
  const [complete = '-', pending = '-'] = text.split(' ')
  return {
    ...(frozen && { frozenAt: 5_000 }),
    ...(complete !== '-' && { complete: { manifest: manifest(complete), publishedAt: 1_000 } }),
    ...(pending !== '-' && { pending: { manifest: manifest(pending), touchedAt: 1_000, missing: [] } }),
  }
}

const textOf = ({ complete, pending }: MapContents) => `${nameOf(complete?.manifest)} ${nameOf(pending?.manifest)}`

function proposalOf(name: string, more: Partial<Proposal> = {}): Proposal {
  const id = { placeId: '1', buildId: 'b' }
  return { id, manifest: manifest(name), isWhole: false, latePublish: 'accept', at: 9_000, ...more }
}

/** The outcome of a publication, and the contents of the slot afterwards: `created P -`. */
function decide(slot: MapSlot, more: Partial<Proposal>): string {
  try {
    const { outcome, contents } = decidePublication(slot, new Set(), proposalOf('P', more))
    return contents ? `${outcome} ${textOf(contents)}` : outcome
  } catch (error) {
    return (error as { code: string }).code
  }
}

const created = 'created P -'
const replaced = 'replaced P -'
const frozen = 'map-frozen'
const unchanged = 'unchanged'

/** Every slot, and the outcome for P: as a whole and as a manifest, for an open build and for a frozen one. */
const table: [slot: string, open: [whole: string, manifest: string], frozen: [whole: string, manifest: string]][] = [
  ['- -', [created, 'incomplete - P'], [created, 'incomplete - P']],
  ['- P', [created, 'incomplete - P'], [created, 'incomplete - P']],
  ['- p', [created, 'incomplete - P'], [created, 'incomplete - P']],
  ['- Q', [created, 'incomplete - P'], [frozen, frozen]],
  ['P -', [unchanged, unchanged], [unchanged, unchanged]],
  ['P Q', [unchanged, unchanged], [unchanged, unchanged]],
  ['p -', [unchanged, unchanged], [unchanged, unchanged]],
  ['p Q', [unchanged, unchanged], [unchanged, unchanged]],
  ['Q -', [replaced, 'incomplete Q P'], [frozen, frozen]],
  ['Q P', [replaced, 'incomplete Q P'], [frozen, frozen]],
  ['Q p', [replaced, 'incomplete Q P'], [frozen, frozen]],
  ['Q R', [replaced, 'incomplete Q P'], [frozen, frozen]],
]

for (const [slot, whenOpen, whenFrozen] of table) {
  t.test(`a publication of P where there is ${slot}`, async (t) => {
    for (const [i, whole] of [true, false].entries()) {
      t.equal(decide(slotOf(slot, false), { isWhole: whole }), whenOpen[i], `open, ${whole ? 'whole' : 'manifest'}`)
      t.equal(decide(slotOf(slot, true), { isWhole: whole }), whenFrozen[i], `frozen, ${whole ? 'whole' : 'manifest'}`)
    }
  })
}

t.test('latePublish: reject refuses a first map after the freeze, and nothing else', async (t) => {
  const reject: LatePublish = 'reject'
  for (const [slot, whenOpen, whenFrozen] of table) {
    for (const [i, whole] of [true, false].entries()) {
      t.equal(decide(slotOf(slot, false), { isWhole: whole, latePublish: reject }), whenOpen[i])
      const expected = slot === '- -' ? frozen : whenFrozen[i]
      t.equal(decide(slotOf(slot, true), { isWhole: whole, latePublish: reject }), expected, slot)
    }
  }
})

t.test('preconditions compare the complete map only, and are checked first', async (t) => {
  const { digest } = manifest('P')
  for (const [slot] of table) {
    for (const isFrozen of [false, true]) {
      const has = slotOf(slot, isFrozen)
      const plain = decide(has, {})
      const [complete] = slot
      t.equal(decide(has, { ifNoneMatch: '*' }), complete === '-' ? plain : 'precondition-failed', `${slot}, none`)
      const matches = complete === 'P' || complete === 'p'
      t.equal(decide(has, { ifMatch: digest }), matches ? plain : 'precondition-failed', `${slot}, match`)
    }
  }
})

t.test('a verified manifest is completed only if it is still pending', async (t) => {
  const completions: [slot: string, open: string, frozen: string][] = [
    ['- -', 'nothing', 'nothing'],
    ['- P', created, created],
    ['- p', 'nothing', 'nothing'],
    ['- Q', 'nothing', 'nothing'],
    ['P -', unchanged, unchanged],
    ['p Q', unchanged, unchanged],
    ['Q -', 'nothing', 'nothing'],
    ['Q P', replaced, 'nothing'],
    ['Q p', 'nothing', 'nothing'],
    ['Q R', 'nothing', 'nothing'],
  ]
  const all = new Set(manifest('P').chunks.map(({ digest }) => digest))
  const complete = (slot: MapSlot, present: Set<string>) => {
    const decided = decideCompletion(slot, present, manifest('P'), 9_000)
    if (!decided) return 'nothing'
    return decided.contents ? `${decided.outcome} ${textOf(decided.contents)}` : decided.outcome
  }
  for (const [slot, whenOpen, whenFrozen] of completions) {
    t.equal(complete(slotOf(slot, false), all), whenOpen, slot)
    t.equal(complete(slotOf(slot, true), all), whenFrozen, `${slot}, frozen`)
  }
  t.equal(complete(slotOf('- P', false), new Set()), 'nothing', 'a chunk was deleted and the manifest published again')
})

t.test('missing chunks are distinct, in the order of the manifest', async (t) => {
  const digests = ['a', 'b', 'c'].map((text) => digestOf(Buffer.from(text)))
  const [a, b, c] = digests as [string, string, string]
  const chunks = [c, a, c, b, a].map((digest) => ({ digest, size: 1 }))
  const proposal = proposalOf('P', { manifest: { ...manifest('P'), chunks } })
  t.strictSame(decidePublication({}, new Set([a]), proposal).missing, [c, b])
})

t.test('a refusal has the time of the freeze, both digests and a remedy', async (t) => {
  const refusal = (slot: string, more: Partial<Proposal> = {}) => {
    const refused = t.throws(() => decidePublication(slotOf(slot, true), new Set(), proposalOf('P', more)))
    return (refused as unknown as Error).message
  }
  const parts = ['1970-01-01T00:00:05.000Z', '"b"', '"1"', manifest('P').digest, 'under a new buildId']
  for (const part of [...parts, manifest('Q').digest]) t.match(refusal('Q -'), part)
  for (const part of parts) t.match(refusal('- -', { latePublish: 'reject' }), part)
  const other = { ...manifest('P'), contentType: 'c/d' }
  for (const part of ['a/b', 'c/d']) t.match(refusal('P -', { manifest: other }), part)
})
