import t from 'tap'
import { changeQuery } from '../page/address.ts'
import { createColumns } from '../page/heat/columns.ts'
import { cellAt, densestCells, gridOf } from '../page/heat/grid.ts'
import { createHeatEvents, listMembers } from '../page/heat/heat-events.ts'
import { axisOf, findPairs } from '../page/heat/pairs.ts'
import { findParts, footprintsOf } from '../page/heat/parts.ts'
import { colorAt, fraction, legendCounts, niceStep, ticks } from '../page/heat/scale.ts'
import { boxOf, fit, pan, zoom } from '../page/heat/viewport.ts'
import { formatPointer, parsePointer } from '../page/json-pointer.ts'
import { formatWhere, parseWhere } from '../page/views/where/where-address.ts'

const everything = { across: '/x', down: '/z' }

function columnsOf(events: readonly unknown[]) {
  const columns = createColumns()
  for (const event of events) columns.add(event)
  return columns
}

t.test('JSON Pointers are those of RFC 6901', async (t) => {
  t.strictSame(parsePointer('/a~1b/m~0n/~01/'), ['a/b', 'm~n', '~1', ''])
  for (const text of ['foo', '/a~', '/a~2b']) t.equal(parsePointer(text), undefined)
  t.equal(formatPointer(['a/b', 'm~n', '0']), '/a~1b/m~0n/0')
})

t.test('the coordinates are the pair that most events have', async (t) => {
  const first = (...events: unknown[]) => findPairs(columnsOf(events))[0]
  t.strictSame(first({ position: { x: 1, y: 2, z: 3 } }), { across: '/position/x', down: '/position/z', count: 1 })
  t.strictSame(first({ x: 1, z: 3 }), { across: '/x', down: '/z', count: 1 })
  t.strictSame(first({ x: 1, y: 3 }), { across: '/x', down: '/y', count: 1 })
  t.strictSame(first({ position: [1, 2, 3] }), { across: '/position/0', down: '/position/2', count: 1 })
  t.strictSame(first({ position: [1, 2] }), { across: '/position/0', down: '/position/1', count: 1 })
  t.strictSame(first({ data: { at: { x: 1, z: 2 } } }), { across: '/data/at/x', down: '/data/at/z', count: 1 })
  const both = { position: { x: 1, z: 2 }, x: 3, z: 4 }
  t.equal(first(both)?.across, '/position/x')
  t.equal(first(both, { x: 3, z: 4 })?.across, '/x', 'one more event has this pair')
})

t.test('only finite numbers are coordinates', async (t) => {
  const pairs = findPairs(columnsOf([{ x: '1', z: '2' }, { x: 1, z: null }, JSON.parse('{"x":1e999,"z":2}'), null, 7]))
  t.strictSame(pairs, [])
  t.strictSame(findPairs(columnsOf([{ x: 1 }, { z: 2 }])), [], 'no event has both')
})

t.test('numbers too large for a map are ignored in events and parts, so that the view stays finite', async (t) => {
  const heat = createHeatEvents()
  for (const [i, x] of [1e308, -1e308, 1e15, 0].entries()) heat.add({ x, z: 0 }, i)
  const extent = { left: 0, right: 1e15, top: 0, bottom: 0 }
  t.strictSame(heat.extent(everything), extent)
  const size = { width: 400, height: 300 }
  const viewport = fit(extent, size)
  t.ok(zoom(viewport, 0.5, size).unitsPerPixel > viewport.unitsPerPixel, 'zooming out shows more')
  t.ok(zoom(viewport, 2, size).unitsPerPixel > viewport.unitsPerPixel / 3, 'zooming in shows about a half')
  const parts = findParts([1e308, -1e39, 0].map((x) => ({ position: [x, 0, 0], size: [2, 2, 2] })))
  t.strictSame(footprintsOf(parts, 0, 2, 10).box, { left: -1, right: 1, top: -1, bottom: 1 })
})

t.test('events whose member names are data use a bounded number of columns', async (t) => {
  const events = Array.from({ length: 5_000 }, (_, i) => ({ scores: { [`player-${i}`]: i } }))
  const columns = columnsOf([{ position: { x: 1, z: 2 } }, ...events])
  t.ok(columns.list().length < 50)
  t.equal(columns.get('/position/z')?.values[0], 2, 'coordinates are kept')
})

t.test('an axis is named by the last token', async (t) => {
  t.strictSame(['/position/x', '/Y', '/at/2', '/lat'].map(axisOf), [0, 1, 2, undefined])
})

t.test('events are counted by cell, type and place', async (t) => {
  const heat = createHeatEvents()
  const add = (x: number, z: number, type: string | undefined, placeId: unknown, at: number) =>
    heat.add({ x, y: at / 1_000, z, type, placeId, eventId: `e-${at}` }, at)
  add(0, 0, 'move', 'town', 1_000)
  add(9.99, 9.99, 'move', 'town', 2_000)
  add(10, 0, 'death', 'town', 3_000)
  add(-0.01, 0, 'move', 7, 4_000)
  add(500, 0, undefined, undefined, 5_000)
  heat.add({ type: 'chat' }, 6_000)
  const grid = { left: -10, top: -10, cell: 10, columns: 3, rows: 2 }
  const count = (selection: object) => heat.count({ ...everything, ...selection }, grid)

  const all = count({})
  t.strictSame([...all.counts], [0, 0, 0, 1, 2, 1])
  t.match(all, { max: 2, inside: 4, located: 5, selected: 6 })
  t.strictSame([...count({ types: ['death', ''] }).counts], [0, 0, 0, 0, 0, 1])
  t.match(count({ types: ['death', ''] }), { inside: 1, located: 2, selected: 2 })
  t.match(count({ placeId: '7' }), { inside: 1, located: 2, selected: 3 }, 'with events that name no place')
  t.strictSame(heat.list({ ...everything, types: ['move'] }, { left: -1, top: 0, right: 10, bottom: 10 }, 2), [
    { eventId: 'e-4000', receivedAt: 4_000, type: 'move', across: -0.01, down: 0 },
    { eventId: 'e-2000', receivedAt: 2_000, type: 'move', across: 9.99, down: 9.99 },
  ])
  t.match(count({ across: '/none' }), { inside: 0, located: 0, selected: 6 })

  const summary = heat.summary()
  t.match(summary, {
    events: 6,
    places: [
      { name: 'town', count: 3 },
      { name: '7', count: 1 },
    ],
  })
  t.strictSame(summary.types[0], { name: 'move', count: 3 })
})

t.test('a sample has exactly the requested number of events, and is not biased by their order', async (t) => {
  const heat = createHeatEvents()
  // the events of two players alternate in the log
  for (let i = 0; i < 10_000; i++) heat.add({ x: i % 2, z: 0 }, i)
  const grid = { left: 0, top: 0, cell: 1, columns: 2, rows: 1 }
  t.equal(heat.located(everything), 10_000)
  for (const shownMax of [1, 100, 5_000, 9_999, 10_000, 20_000]) {
    const { shown, located, inside } = heat.count(everything, grid, shownMax)
    t.strictSame([shown, inside, located], [Math.min(shownMax, 10_000), Math.min(shownMax, 10_000), 10_000])
  }
  const { counts } = heat.count(everything, grid, 5_000)
  t.ok(Math.abs((counts[0] as number) - 2_500) < 150, `both players are in it: ${counts}`)
  t.strictSame(heat.count(everything, grid, 5_000).counts, counts, 'it is always the same')
  const half = heat.count(everything, { left: 0, top: 0, cell: 1, columns: 1, rows: 1 }, 5_000)
  t.equal(half.inside, counts[0], 'it does not depend on the view')
})

t.test('the address of a heat map holds its choices; invalid ones are ignored', async (t) => {
  const chosen = {
    buildId: '1.42.1',
    versus: '1.42.0',
    placeId: '',
    playerId: '7',
    sessionId: undefined,
    serverId: undefined,
    types: ['death', ''],
    across: '/x',
    down: '/z',
    view: { x: -1.5, y: 2, unitsPerPixel: 0.25 },
    cell: { left: 0.1, top: 0, right: 0.2, bottom: 0.1 },
  } as const
  t.strictSame(parseWhere(new URLSearchParams(changeQuery('', formatWhere(chosen)))), chosen)
  const odd = parseWhere(new URLSearchParams('at=1,2,0&cell=1,2,3&versus='))
  t.match(odd, { view: undefined, cell: undefined, versus: undefined })
})

t.test('a cell has bounds that contain its events', async (t) => {
  const heat = createHeatEvents()
  for (const x of [0.31, 0.32, 0.45]) heat.add({ x, z: -0.05 }, 0)
  const grid = gridOf({ left: 0, top: -1, right: 1, bottom: 1 }, 0.02)
  t.equal(grid.cell, 0.1)
  const counts = heat.count(everything, grid)
  const cell = { left: 0.3, top: -0.1, right: 0.4, bottom: 0, count: 2 }
  t.strictSame(cellAt(counts, 0.33, -0.02), cell)
  t.equal(cellAt(counts, 7, 0), undefined)
  t.strictSame(densestCells(counts, 1), [cell])
  t.strictSame(
    densestCells(counts, 10).map(({ count }) => count),
    [2, 1],
  )
})

t.test('outliers do not shrink the other events to a dot', async (t) => {
  const heat = createHeatEvents()
  for (let i = 0; i < 1_000; i++) heat.add({ x: i % 100, z: i % 50 }, 0)
  t.strictSame(heat.extent(everything), { left: 0, top: 0, right: 99, bottom: 49 })
  heat.add({ x: 1e9, z: -1e9 }, 0)
  const box = heat.extent(everything)
  t.ok(box && box.right < 200 && box.top > -100)
  t.equal(createHeatEvents().extent(everything), undefined)
})

t.test('cells are squares of round sizes, and their number is bounded', async (t) => {
  const grid = gridOf({ left: -203, top: 17, right: 1_000, bottom: 800 }, 1.5)
  t.strictSame(grid, { left: -210, top: 10, cell: 10, columns: 121, rows: 79 })
  const many = gridOf({ left: 0, top: 0, right: 1e6, bottom: 1e6 }, 1)
  t.ok(many.columns * many.rows <= 100_000)
})

t.test('zooming keeps the pointed place, panning keeps the scale, and fitting shows everything', async (t) => {
  const size = { width: 400, height: 200 }
  const viewport = fit({ left: -100, top: 0, right: 100, bottom: 20 }, size)
  const { left, right, top, bottom } = boxOf(viewport, size)
  t.ok(left < -100 && right > 100 && top < 0 && bottom > 20)
  const at = { x: 40, y: 150 }
  const under = (view: typeof viewport) => {
    const box = boxOf(view, size)
    return [box.left + at.x * view.unitsPerPixel, box.top + at.y * view.unitsPerPixel].map((each) => each.toFixed(6))
  }
  const closer = zoom(viewport, 3, size, at)
  t.strictSame(under(closer), under(viewport))
  t.equal(closer.unitsPerPixel, viewport.unitsPerPixel / 3)
  t.equal(pan(viewport, 10, 0).x, viewport.x - 10 * viewport.unitsPerPixel)
})

t.test('steps and ticks are round', async (t) => {
  t.strictSame([0.002, 0.0021, 7, 10, 11, 49].map(niceStep), [0.002, 0.005, 10, 10, 20, 50])
  t.strictSame(ticks(-0.25, 0.31, 5), [-0.2, 0, 0.2])
  t.strictSame(legendCounts(5_000), [1, 10, 100, 1_000, 5_000])
  t.strictSame(legendCounts(1), [1])
})

t.test('with rising counts, colours get evenly lighter on dark, darker on light', async (t) => {
  const lightness = (isDark: boolean) => Array.from({ length: 11 }, (_, i) => lightnessOf(colorAt(i / 10, isDark)))
  for (const [values, sign] of [
    [lightness(true), 1],
    [lightness(false), -1],
  ] as const) {
    const steps = values.slice(1).map((value, i) => sign * (value - (values[i] as number)))
    t.ok(Math.min(...steps) > 3 && Math.max(...steps) < 12, steps.map(Math.round).join())
  }
  t.equal(fraction(1, 1_000), 0)
  t.equal(fraction(10, 1_000).toFixed(3), '0.333')
  t.equal(fraction(1_000, 1_000), 1)
  t.equal(fraction(1, 1), 1)
})

/** L* of CIELAB. */
function lightnessOf(color: readonly number[]): number {
  const [red, green, blue] = color.map((each) => ((each / 255 + 0.055) / 1.055) ** 2.4) as [number, number, number]
  return 116 * Math.cbrt(0.2126 * red + 0.7152 * green + 0.0722 * blue) - 16
}

t.test('parts are found by their positions and sizes, in each supported spelling', async (t) => {
  const middle = [10, 5, -20]
  const size = [4, 2, 6]
  const xyz = ([x, y, z]: readonly number[]) => ({ x, y, z })
  const spelled = [
    { position: middle, size },
    { pos: xyz(middle), size: xyz(size) },
    { Position: middle, Size: size },
    { cframe: [...middle, 1, 0, 0, 0, 1, 0, 0, 0, 1], size },
    { cframe: { position: middle }, size },
    { center: middle, extents: [2, 1, 3] },
    { ...xyz(middle), width: 4, height: 2, depth: 6 },
    { name: 'door', position: middle, size, children: [] },
  ]
  const parts = findParts({ areas: [{ deep: { parts: spelled } }], names: ['a'], heights: [1, 2, 3], none: null })
  t.equal(parts.length, spelled.length)
  for (let i = 0; i < parts.length; i++) {
    t.strictSame([...parts.centers.slice(3 * i, 3 * i + 3)], middle)
    t.strictSame([...parts.sizes.slice(3 * i, 3 * i + 3)], size)
  }
  t.equal(findParts([{ position: middle }, { size }, { position: 'here', size: 'big' }, 7]).length, 0)
})

const cornersOf = (part: object, across: 0 | 1 | 2 = 0, down: 0 | 1 | 2 = 2) =>
  [...footprintsOf(findParts([part]), across, down, 10).corners].map((each) => Math.round(each * 1_000) / 1_000 + 0)

t.test('parts are seen along the third axis', async (t) => {
  const part = { position: [10, 5, -20], size: [4, 2, 6] }
  t.strictSame(cornersOf(part), [8, -23, 12, -23, 12, -17, 8, -17])
  t.strictSame(cornersOf(part, 0, 1), [8, 4, 12, 4, 12, 6, 8, 6])
  // x and y of a flat rectangle name its corner
  t.strictSame(cornersOf({ x: 10, y: 20, width: 4, height: 6 }), [10, 20, 14, 20, 14, 26, 10, 26])
})

t.test('parts are turned about the vertical axis, counterclockwise from above', async (t) => {
  const turned = [-3, 2, -3, -2, 3, -2, 3, 2]
  const part = { position: [0, 0, 0], size: [4, 2, 6] }
  for (const turn of [
    { rotation: 90 },
    { rotationY: 90 },
    { rotation: [0, 90, 0] },
    { orientation: { x: 0, y: 90, z: 0 } },
  ]) {
    t.strictSame(cornersOf({ ...part, ...turn }), turned, JSON.stringify(turn))
  }
  t.strictSame(cornersOf({ size: part.size, cframe: [0, 0, 0, 0, 0, 1, 0, 1, 0, -1, 0, 0] }), turned)
  t.strictSame(cornersOf({ ...part, rotation: 90 }, 0, 1), cornersOf(part, 0, 1), 'not from the side')
})

t.test('if there are too many parts, the largest are drawn, largest first', async (t) => {
  const parts = findParts([1, 5, 3, 9].map((side) => ({ position: [0, 0, 0], size: [side, 1, side] })))
  const { length, corners, box } = footprintsOf(parts, 0, 2, 2)
  t.equal(length, 2)
  t.strictSame([...corners.slice(0, 2)], [-4.5, -4.5])
  t.strictSame(box, { left: -4.5, top: -4.5, right: 4.5, bottom: 4.5 })
})

t.test('the members of an event are listed with their types', async (t) => {
  t.strictSame(listMembers({ type: 'a', at: { lat: 1 }, tags: [1, 2, 3, 4], on: true, by: null }), [
    { pointer: '/type', kind: 'string' },
    { pointer: '/at/lat', kind: 'number' },
    { pointer: '/tags', kind: 'array' },
    { pointer: '/on', kind: 'boolean' },
    { pointer: '/by', kind: 'null' },
  ])
})
