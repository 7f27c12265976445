import t from 'tap'
import { createBodyMemory } from '../../src/limits/body-memory.ts'

t.test('unfinished bodies are bounded by project and in all, until they are released', async (t) => {
  const memory = createBodyMemory({ max: 100, projectMax: 60 } as never)
  const overloaded = { code: 'overloaded', retryAfterSeconds: 1 }
  const [first, second, other] = [memory.hold('p'), memory.hold('p'), memory.hold('q')]
  first.add(40)
  second.add(20)
  t.throws(() => second.add(1), overloaded, 'of the project')
  other.add(40)
  t.throws(() => other.add(1), overloaded, 'of all')
  first.release()
  first.release()
  second.add(40)
  t.throws(() => other.add(41), overloaded)
  second.release()
  other.add(20)
  t.throws(() => other.add(1), overloaded)
})
