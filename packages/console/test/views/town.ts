// A small town and the events of its players, for screenshots: always the same ones.

interface Part {
  name: string
  position: [number, number, number]
  size: [number, number, number]
  rotation?: [number, number, number]
}

interface PlayerEvent {
  type: string
  placeId: string
  position?: { x: number; y: number; z: number }
}

/** The minimal standard generator of Park and Miller. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 16_807) % 2_147_483_647
    return state / 2_147_483_647
  }
}

function part(name: string, [x, z]: readonly [number, number], size: [number, number, number], turn = 0): Part {
  return { name, position: [x, size[1] / 2, z], size, ...(turn !== 0 && { rotation: [0, turn, 0] }) }
}

const blocks = [-420, -200, 100, 325].flatMap((x) => [-240, 40, 290].map((z) => [x, z] as const))

function buildTown(): Part[] {
  const random = createRandom(7)
  const between = (least: number, greatest: number) => least + random() * (greatest - least)
  const houses = blocks.flatMap(([x, z]) =>
    Array.from({ length: 6 }, (_, i) => {
      const turn = random() < 0.3 ? between(0, 40) : 0
      const place = [x - 50 + (i % 3) * 50, z - 28 + Math.floor(i / 3) * 56] as const
      return part('house', place, [between(18, 46), 20, between(18, 46)], turn)
    }),
  )
  const trees = Array.from({ length: 160 }, () =>
    part('tree', [between(-500, 500), between(-370, 370)], [5, 14, 5], between(0, 90)),
  )
  return [
    part('ground', [0, 0], [1_024, 2, 768]),
    part('river', [-60, 0], [60, 2, 768], 8),
    ...[-120, 180].flatMap((z) => [part('bridge', [-60, z], [110, 4, 30]), part('road', [0, z], [1_024, 1, 24])]),
    ...[200, -300].map((x) => part('road', [x, 0], [24, 1, 768])),
    part('tower', [200, -120], [60, 60, 60], 45),
    part('arena', [400, 180], [120, 20, 120]),
    ...houses,
    ...trees,
  ]
}

/** A map with parts. */
export const town = { name: 'Town', parts: buildTown() }

/** Meeting places: x, z, width, and share of the events. */
const meetings = [
  [200, -120, 40, 0.24],
  [-60, -120, 22, 0.16],
  [-60, 180, 26, 0.12],
  [400, 180, 45, 0.18],
  [-300, 180, 40, 0.07],
  [-400, -230, 50, 0.05],
] as const
const types = ['player.move', 'player.move', 'player.move', 'shot.fired', 'shot.fired', 'player.death', 'item.pickup']

/** Events around the meeting places and along the roads; a few without a position. */
export function townEvents(count: number): PlayerEvent[] {
  const random = createRandom(11)
  const normal = () => (random() + random() + random() + random() + random() + random() - 3) / 0.7
  function place(): [number, number] {
    let share = random()
    for (const [x, z, width, part] of meetings) {
      share -= part
      if (share < 0) return [x + normal() * width, z + normal() * width]
    }
    const along = random() - 0.5
    const road = Math.floor(random() * 4)
    if (road < 2) return [along * 1_024, (road === 0 ? -120 : 180) + normal() * 7]
    return [(road === 2 ? 200 : -300) + normal() * 7, along * 768]
  }
  return Array.from({ length: count }, () => {
    if (random() < 0.04) return { type: 'chat.message', placeId: 'town' }
    const [x, z] = place()
    const within = (value: number, limit: number) => Math.round(100 * Math.max(-limit, Math.min(limit, value))) / 100
    const position = { x: within(x, 512), y: 3, z: within(z, 384) }
    return { type: types[Math.floor(random() * types.length)] as string, placeId: 'town', position }
  })
}
