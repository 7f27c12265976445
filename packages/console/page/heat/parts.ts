import { grow, isCoordinate } from './columns.ts'
import type { Box } from './viewport.ts'

/** An axis of the map: x, y (up) or z. */
export type Axis = 0 | 1 | 2

/** The parts of a map: their centers, sizes and rotations. */
export interface Parts {
  length: number
  /** Three numbers per part; NaN for the third axis of a flat map. */
  centers: Float32Array
  sizes: Float32Array
  /** Radians about the vertical axis, counterclockwise as seen from above. */
  rotations: Float32Array
  /** Whether the map has more parts than were read. */
  isCut: boolean
}

const partsMax = 1_000_000

type Vector = readonly [number, number, number]
export type Members = Record<string, unknown>

/**
 * Finds every object with a position and a size, at any depth; at most 1,000,000. `onPart` receives each with its path,
 * in which `*` stands for an index.
 */
export function findParts(map: unknown, onPart: (members: Members, path: string) => void = () => {}): Parts {
  const list = createPartList()
  const rest: unknown[] = [map]
  const paths: string[] = ['']
  const push = (value: unknown, path: string) => {
    // long arrays of numbers contain no parts
    if (typeof value !== 'object') return
    rest.push(value)
    paths.push(path)
  }
  while (rest.length > 0 && list.length < partsMax) {
    const value = rest.pop()
    const path = paths.pop() as string
    if (typeof value !== 'object' || value === null) continue
    if (Array.isArray(value)) {
      const each = `${path}/*`
      for (let i = value.length - 1; i >= 0; i--) push(value[i], each)
      continue
    }
    if (list.add(value as Members)) onPart(value as Members, path)
    for (const [name, member] of Object.entries(value)) if (typeof member === 'object') push(member, `${path}/${name}`)
  }
  return list.end(rest.length > 0)
}

function createPartList() {
  let centers = new Float32Array(3 * 1_024)
  let sizes = new Float32Array(3 * 1_024)
  let rotations = new Float32Array(1_024)
  let length = 0
  return {
    get length() {
      return length
    },
    /** Returns whether the object is a part. */
    add(members: Members): boolean {
      const size = sizeOf(members)
      const position = size && positionOf(members, size)
      if (!position) return false
      centers = grow(centers, 3 * length + 3)
      sizes = grow(sizes, 3 * length + 3)
      rotations = grow(rotations, length + 1)
      centers.set(position, 3 * length)
      sizes.set(size, 3 * length)
      rotations[length] = rotationOf(members)
      length++
      return true
    },
    end: (isCut: boolean): Parts => ({ length, centers, sizes, rotations, isCut }),
  }
}

function sizeOf(members: Members): Vector | undefined {
  const size = members.size ?? members.Size ?? members.dimensions
  if (isCoordinate(size)) return absolute([size, size, size])
  // engines call half of the size "extents"
  const half = vectorOf(members.extents ?? members.Extents)
  const whole = vectorOf(size) ?? half?.map((each) => 2 * each) ?? sidesOf(members)
  return whole && absolute(whole as unknown as Vector)
}

function sidesOf({ width, height, depth, length }: Members): number[] | undefined {
  const deep = depth ?? length
  if (!isCoordinate(width) || !(isCoordinate(height) || isCoordinate(deep))) return undefined
  return [width, isCoordinate(height) ? height : 0, isCoordinate(deep) ? deep : Number.NaN]
}

function absolute(vector: Vector): Vector {
  return [Math.abs(vector[0]), Math.abs(vector[1]), Math.abs(vector[2])]
}

function positionOf(members: Members, size: Vector): Vector | undefined {
  const named =
    members.position ?? members.Position ?? members.pos ?? members.cframe ?? members.CFrame ?? members.center
  if (named !== undefined) return vectorOf(named) ?? vectorOf((named as Members | null)?.position)
  const own = vectorOf(members)
  // in tile editors, the position of a 2D rectangle is a corner
  const isRectangle = own && Number.isNaN(own[2]) && isCoordinate(members.width)
  return isRectangle ? [own[0] + size[0] / 2, own[1] + size[1] / 2, Number.NaN] : own
}

/** `[x, y]`, `[x, y, z, …]`, or an object with x and y, x and z, or all. */
function vectorOf(value: unknown): Vector | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) {
    const isVector = (value.length === 2 || value.length === 3 || value.length === 12) && value.every(isCoordinate)
    return isVector
      ? [value[0] as number, value[1] as number, (value[2] as number | undefined) ?? Number.NaN]
      : undefined
  }
  const { x, y, z, X = x, Y = y, Z = z } = value as Members
  if (!isCoordinate(X) || !(isCoordinate(Y) || isCoordinate(Z))) return undefined
  return [X, isCoordinate(Y) ? Y : 0, isCoordinate(Z) ? Z : Number.NaN]
}

/** The rotation, from an angle in degrees or from the matrix of a CFrame. */
function rotationOf(members: Members): number {
  const { rotation = members.Rotation ?? members.orientation ?? members.Orientation, rotationY } = members
  const cframe = members.cframe ?? members.CFrame
  if (Array.isArray(cframe) && cframe.length === 12) return Math.atan2(Number(cframe[5]), Number(cframe[11]))
  const degrees = rotationY ?? (isCoordinate(rotation) ? rotation : vectorOf(rotation)?.[1])
  return isCoordinate(degrees) ? (degrees * Math.PI) / 180 : 0
}

/** The outlines of parts as seen along the third axis: four corners each. */
export interface Footprints {
  length: number
  /** Eight numbers per part: across and down of each corner, in order around it. */
  corners: Float32Array
  /** A box around all but outlying parts; undefined without parts. */
  box: Box | undefined
}

/** The outlines of the largest parts, largest first, with these axes across and down. */
export function footprintsOf(parts: Parts, across: Axis, down: Axis, limit: number): Footprints {
  const isFlat = (i: number) => Number.isNaN(parts.centers[3 * i + 2] as number)
  // a flat map has only x and y, whatever its events call them
  const axes = (i: number): [Axis, Axis] => (isFlat(i) ? [0, 1] : [across, down])
  const areas = new Float64Array(parts.length)
  for (let i = 0; i < parts.length; i++) {
    const [a, d] = axes(i)
    areas[i] = (parts.sizes[3 * i + a] as number) * (parts.sizes[3 * i + d] as number)
  }
  const order = Uint32Array.from(areas.keys()).sort((a, b) => (areas[b] as number) - (areas[a] as number))
  const shown = order.subarray(0, limit)
  const corners = new Float32Array(shown.length * 8)
  const isFromAbove = across + down === 2 && across !== down
  for (const [at, i] of shown.entries()) {
    const [a, d] = axes(i)
    // a rotation about the vertical axis is visible only from above
    const rotation = isFromAbove ? (parts.rotations[i] as number) * (across === 0 ? 1 : -1) : 0
    setCorners(corners.subarray(8 * at, 8 * at + 8), {
      x: parts.centers[3 * i + a] as number,
      y: parts.centers[3 * i + d] as number,
      halfWidth: (parts.sizes[3 * i + a] as number) / 2 || 0,
      halfHeight: (parts.sizes[3 * i + d] as number) / 2 || 0,
      rotation,
    })
  }
  return { length: shown.length, corners, box: boxAround(corners) }
}

interface Rectangle {
  x: number
  y: number
  halfWidth: number
  halfHeight: number
  rotation: number
}

const signs = [-1, -1, 1, -1, 1, 1, -1, 1] as const

function setCorners(corners: Float32Array, { x, y, halfWidth, halfHeight, rotation }: Rectangle): void {
  const cosine = Math.cos(rotation)
  const sine = Math.sin(rotation)
  for (let i = 0; i < 8; i += 2) {
    const dx = (signs[i] as number) * halfWidth
    const dy = (signs[i + 1] as number) * halfHeight
    corners[i] = x + dx * cosine + dy * sine
    corners[i + 1] = y - dx * sine + dy * cosine
  }
}

function boxAround(corners: Float32Array): Box | undefined {
  if (corners.length === 0) return undefined
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity }
  for (let i = 0; i < corners.length; i += 2) {
    const x = corners[i] as number
    const y = corners[i + 1] as number
    box.left = Math.min(box.left, x)
    box.right = Math.max(box.right, x)
    box.top = Math.min(box.top, y)
    box.bottom = Math.max(box.bottom, y)
  }
  return box
}
