import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createFingerprint } from '../../src/ids/fingerprint.ts'

function fingerprintOf(seed: string, project: number, eventId: string): string {
  const into = new Uint32Array(2)
  createFingerprint(Buffer.from(seed))(project, eventId, into, 0)
  return into.join('-')
}

t.test('the same event has the same fingerprint, another event, project or store another one', async (t) => {
  const one = fingerprintOf('seedseed', 1, 'e-1')
  t.equal(fingerprintOf('seedseed', 1, 'e-1'), one)
  for (const other of [
    fingerprintOf('seedsee2', 1, 'e-1'),
    fingerprintOf('see2seed', 1, 'e-1'),
    fingerprintOf('seedseed', 2, 'e-1'),
    fingerprintOf('seedseed', 1, 'e-2'),
    fingerprintOf('seedseed', 1, 'e-11'),
    fingerprintOf('seedseed', 1, '1-e'),
    fingerprintOf('seedseed', 1, 'e-\u0131'),
  ]) {
    t.not(other, one)
  }
})

t.test('ids that look alike spread as evenly as random ones', async (t) => {
  const count = 1 << 16
  const families: Record<string, (i: number) => string> = {
    counted: (i) => String(i),
    'counted with zeros': (i) => String(i).padStart(200, '0'),
    'counted at the front': (i) => `${i}-abcdefghijkl`,
    random: () => randomUUID(),
  }
  for (const [family, idOf] of Object.entries(families)) {
    const fingerprint = createFingerprint(Buffer.from('seedseed'))
    const into = new Uint32Array(2)
    const seen = new Set<string>()
    const byHigh = new Uint32Array(256)
    const byLow = new Uint32Array(256)
    for (let i = 0; i < count; i++) {
      fingerprint(1, idOf(i), into, 0)
      const [high = 0, low = 0] = into
      seen.add(`${high}-${low}`)
      byHigh[high >>> 24] = (byHigh[high >>> 24] ?? 0) + 1
      byLow[low & 255] = (byLow[low & 255] ?? 0) + 1
    }
    t.equal(seen.size, count, `${family}: no two of ${count} collide`)
    // 256 in a bucket on average, with a deviation of 16: seven deviations are not chance
    for (const buckets of [byHigh, byLow]) {
      t.ok(
        buckets.every((n) => n > 256 - 112 && n < 256 + 112),
        `${family}: even buckets`,
      )
    }
  }
})
