import t from 'tap'
import { createReadSteps } from '../src/read-steps.ts'

/** An event loop whose turns are run by hand, with a clock that only work advances. */
function createLoop() {
  let time = 0
  let actions: (() => void)[] = []
  const readSteps = createReadSteps({ now: () => time, defer: (action) => void actions.push(action) })
  return {
    readSteps,
    /** Advances the clock, as work does. */
    spend(ms: number) {
      time += ms
    },
    /** One turn, with the microtasks after each of its actions; false when nothing was deferred. */
    async turn() {
      const due = actions
      actions = []
      for (const action of due) {
        action()
        for (let i = 0; i < 10; i++) await Promise.resolve()
      }
      return due.length > 0
    },
  }
}

t.test('one reader takes a step in each turn, round robin by project and then by reader', async (t) => {
  const { readSteps, turn } = createLoop()
  const steps: string[] = []
  async function read(projectId: string, reader: string, count: number) {
    for (let i = 0; i < count; i++) {
      await readSteps.next(projectId)
      steps.push(reader)
    }
  }
  const readers = [read('p', 'p1', 2), read('p', 'p2', 2), read('p', 'p3', 2), read('q', 'q1', 2)]
  for (let taken = 1; await turn(); taken++) t.equal(steps.length, taken)
  await Promise.all(readers)
  t.strictSame(steps, ['p1', 'q1', 'p2', 'q1', 'p3', 'p1', 'p2', 'p3'])
})

t.test('a step is over at the end of its turn', async (t) => {
  const { readSteps, turn } = createLoop()
  const next = readSteps.next('p')
  let isOver: boolean | undefined
  const noted = next.then((step) => {
    isOver = step.isOver
  })
  await turn()
  await noted
  t.equal(isOver, false)
  t.equal((await next).isOver, true)
})

/** Takes steps of `stepMs` one after another; returns a function that returns their number. */
function readAlways({ readSteps, spend }: ReturnType<typeof createLoop>, stepMs: number): () => number {
  let steps = 0
  const read = async () => {
    for (;;) {
      await readSteps.next('p')
      steps++
      spend(stepMs)
    }
  }
  void read()
  return () => steps
}

t.test('after a step everything else runs four times as long before the next', async (t) => {
  const loop = createLoop()
  const steps = readAlways(loop, 2)
  await loop.turn()
  t.equal(steps(), 1)
  for (const expected of [1, 1, 1, 1, 1, 1, 1, 2, 2]) {
    // everything else, which is busy
    loop.spend(1)
    await loop.turn()
    t.equal(steps(), expected)
  }
})

t.test('a turn in which there is nothing else to do is for reads', async (t) => {
  const loop = createLoop()
  const steps = readAlways(loop, 50)
  for (let i = 1; i <= 5; i++) {
    loop.spend(0.01)
    await loop.turn()
    t.equal(steps(), i)
  }
})
