/**
 * Decisions that a seed repeats. Each actor has a stream of its own, so that the order in which actors run changes none
 * of their decisions.
 *
 * @typedef {object} Random
 * @property {() => number} next from 0 up to 1
 * @property {(min: number, max: number) => number} integer both bounds are possible
 * @property {(probability: number) => boolean} chance
 * @property {<T>(values: readonly T[]) => T} pick
 * @property {<T>(weights: readonly (readonly [T, number])[]) => T} weighted
 */

/** @param {...(string | number)} names the seed, then what the decisions are for @returns {Random} */
export function createRandom(...names) {
  let state = hashText(names.join(' '))

  // mulberry32, of the public domain
  function next() {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  return {
    next,
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
    chance: (probability) => next() < probability,
    pick(values) {
      if (values.length === 0) throw new Error('there is nothing to choose from')
      return /** @type {typeof values[number]} */ (values[Math.floor(next() * values.length)])
    },
    weighted(weights) {
      let left = next() * weights.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [value, weight] of weights) {
        left -= weight
        if (left < 0) return value
      }
      throw new Error('there is nothing to choose from')
    },
  }
}

/** FNV-1a. @param {string} text */
function hashText(text) {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash
}
