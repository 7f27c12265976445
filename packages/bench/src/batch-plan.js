/** @typedef {import('./make-batch.js').Repeats} Repeats */

/**
 * What the next batch of a run is made of.
 *
 * @typedef {{ number: number, repeats: Repeats | undefined, accepted: number }} Planned
 *   `accepted` is how many of its events the answer must say were new
 */

/**
 * Which batches a run sends: all new; a share of each batch from batches that were answered before; or whole batches
 * that were all answered before.
 *
 * @param {{ count: number, repeatShare?: number, resend?: number }} options
 *   `count` events a batch; `resend` is how many batches were sent before, from number 0 on, which are sent again
 */
export function createBatchPlan({ count, repeatShare = 0, resend = 0 }) {
  const repeated = Math.round(count * repeatShare)
  if (repeated * 2 > count) throw new Error('at most half of a batch can be repeats')
  /** @type {number[]} */
  const answered = []
  let next = 0
  return {
    /** @returns {Planned} */
    next() {
      const number = next++
      if (resend > 0) return { number: number % resend, repeats: undefined, accepted: 0 }
      const source = repeated > 0 ? answered[Math.floor(Math.random() * answered.length)] : undefined
      if (source === undefined) return { number, repeats: undefined, accepted: count }
      // what stands behind the repeats of a batch was new
      return { number, repeats: { batch: source, at: repeated, count: repeated }, accepted: count - repeated }
    },
    /** @param {Planned} planned */
    answered({ number }) {
      if (repeated > 0) answered.push(number)
    },
  }
}
