import t from 'tap'
import { projectKey, readSequence, sequenceKey } from '../../src/environment/row-keys.ts'

const sequences = [0, 1, 255, 256, 2 ** 32 - 1, 2 ** 32, 2 ** 40, Number.MAX_SAFE_INTEGER]

t.test('the order of keys is the order of numbers', async (t) => {
  const keys = sequences.map(sequenceKey)
  t.strictSame([...keys].reverse().sort(Buffer.compare), keys)
  const projects = [0, 1, 255, 256, 2 ** 32 - 1].map((project) => projectKey(project))
  t.strictSame([...projects].reverse().sort(Buffer.compare), projects)
})

t.test('a sequence number is read back from its key, also behind a project', async (t) => {
  for (const sequence of sequences) {
    t.equal(readSequence(sequenceKey(sequence)), sequence)
    t.equal(readSequence(projectKey(7, sequenceKey(sequence))), sequence)
  }
})
