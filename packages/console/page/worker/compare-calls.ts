import {
  type ChangeKind,
  compareParts,
  differingMembers,
  findKnownParts,
  type KnownParts,
  type PartChange,
} from '../heat/compare-parts.ts'
import { drawParts, type PartColors } from '../heat/draw-parts.ts'
import { type Footprints, footprintsOf, selectParts } from '../heat/parts.ts'
import { around, type Box, type Size, type Viewport } from '../heat/viewport.ts'
import type { CallContext } from './call-context.ts'
import { fetchMapBytes, type MapVersion, parseMap } from './map-calls.ts'
import type { LoadProgress } from './read-body.ts'

/** The layers of the picture, in drawing order; moved parts are drawn at both places. */
const layers = ['same', 'removed', 'moved-from', 'moved', 'changed', 'added'] as const
export type Layer = (typeof layers)[number]

export interface MapComparison {
  /** The number of parts of each map. */
  before: number
  after: number
  /** Whether a map has more parts than were read. */
  isCut: boolean
  counts: Readonly<Record<ChangeKind | 'same', number>>
  box: Box | undefined
}

export interface ChangedPart {
  kind: ChangeKind
  /** Its id, or else its name, or else its path. */
  key: string
  before?: PartState
  after?: PartState
  /** Its box in the picture. */
  box: Box | undefined
}

export interface PartState {
  /** Two or three numbers. */
  position: number[]
  size: number[]
  /** The other members; if both maps have the part, only those that differ. */
  others: string
}

export interface ComparisonView extends Viewport, Size {
  pixelRatio: number
  colors: Readonly<Record<Layer, PartColors>>
}

/** Number of changes on one page of the list. */
export const changesPerPage = 100
const drawnMax = 50_000
const othersCharsMax = 200
const [across, down] = [0, 2] as const

/** Calls that compare two maps, whose parts stay in the worker's memory. */
export function createCompareCalls() {
  let before: KnownParts | undefined
  let after: KnownParts | undefined
  let changes: PartChange[] = []
  let pictures: Partial<Record<Layer, Footprints>> = {}

  return {
    /** Downloads two maps and compares their parts; undefined if one is not JSON. */
    async compareMaps(
      maps: { before: MapVersion; after: MapVersion },
      context: CallContext<LoadProgress>,
    ): Promise<MapComparison | undefined> {
      before = undefined
      after = undefined
      changes = []
      pictures = {}
      // one after another, so that only one document is in memory at a time
      const old = await loadParts(maps.before, context)
      const now = old && (await loadParts(maps.after, context))
      if (!old || !now) return undefined
      before = old
      after = now
      changes = compareParts(old, now)
      pictures = drawLayers(old, now, changes)
      const counts = { added: 0, removed: 0, moved: 0, changed: 0, same: 0 }
      for (const { kind } of changes) counts[kind]++
      counts.same = old.length - counts.removed - counts.moved - counts.changed
      const boxes = Object.values(pictures).map(({ box }) => box)
      return {
        before: old.length,
        after: now.length,
        isCut: old.isCut || now.isCut,
        counts,
        box: boxes.reduce<Box | undefined>((all, box) => around(all, box), undefined),
      }
    },

    /** A page of the changes, of one kind or all. */
    listChanges: async ({ kind, from }: { kind: ChangeKind | undefined; from: number }): Promise<ChangedPart[]> => {
      const old = before
      const now = after
      if (!old || !now) return []
      const listed = kind ? changes.filter((change) => change.kind === kind) : changes
      return listed.slice(from, from + changesPerPage).map((change) => describe(old, now, change))
    },

    drawComparison: async ({ width, height, pixelRatio, colors, ...view }: ComparisonView) => {
      const canvas = new OffscreenCanvas(Math.max(1, width * pixelRatio), Math.max(1, height * pixelRatio))
      const context = canvas.getContext('2d')
      if (!context) return undefined
      context.scale(pixelRatio, pixelRatio)
      for (const layer of layers) {
        const footprints = pictures[layer]
        if (footprints) drawParts(context, footprints, { ...view, width, height }, colors[layer])
      }
      return canvas.transferToImageBitmap()
    },
  }
}

async function loadParts(map: MapVersion, context: CallContext<LoadProgress>): Promise<KnownParts | undefined> {
  const bytes = await fetchMapBytes(map, context)
  try {
    return findKnownParts(parseMap(bytes))
  } catch {
    return undefined
  }
}

function drawLayers(before: KnownParts, after: KnownParts, changes: readonly PartChange[]) {
  const differing = new Set(changes.map((change) => change.before))
  const indexes = (kind: ChangeKind, side: 'before' | 'after') =>
    changes.flatMap((change) => (change.kind === kind && change[side] !== undefined ? [change[side]] : []))
  const same = Array.from({ length: before.length }, (_, index) => index).filter((index) => !differing.has(index))
  const draw = (parts: KnownParts, chosen: readonly number[]) =>
    footprintsOf(selectParts(parts, chosen), across, down, drawnMax)
  return {
    same: draw(before, same),
    removed: draw(before, indexes('removed', 'before')),
    'moved-from': draw(before, indexes('moved', 'before')),
    moved: draw(after, indexes('moved', 'after')),
    changed: draw(after, indexes('changed', 'after')),
    added: draw(after, indexes('added', 'after')),
  } satisfies Record<Layer, Footprints>
}

function describe(before: KnownParts, after: KnownParts, { kind, ...change }: PartChange): ChangedPart {
  const [old, now] = [change.before, change.after]
  const isInBoth = old !== undefined && now !== undefined
  const others = isInBoth
    ? differingMembers(before.others[old] ?? '', after.others[now] ?? '', othersCharsMax)
    : { before: '', after: '' }
  const boxOf = (parts: KnownParts, index: number) => footprintsOf(selectParts(parts, [index]), across, down, 1).box
  const boxes = [old === undefined ? undefined : boxOf(before, old), now === undefined ? undefined : boxOf(after, now)]
  return {
    kind,
    key: (old === undefined ? after.keys[now as number] : before.keys[old]) ?? '',
    ...(old !== undefined && { before: stateOf(before, old, others.before) }),
    ...(now !== undefined && { after: stateOf(after, now, others.after) }),
    box: around(boxes[0], boxes[1]),
  }
}

function stateOf({ centers, sizes }: KnownParts, index: number, others: string): PartState {
  const numbers = (from: Float32Array) =>
    [...from.subarray(3 * index, 3 * index + 3)].filter((each) => !Number.isNaN(each))
  return { position: numbers(centers), size: numbers(sizes), others }
}
