import type { Exchange } from './scripted-server.ts'

/** Queues requests until a rule takes them, oldest first. */
export interface Arrivals {
  add(exchange: Exchange): void
  /** Resolves when the queue has a request. */
  any(): Promise<void>
  has(): boolean
  take(): Exchange
  /** Passes on the queued requests and all later ones. */
  serve(respond: (exchange: Exchange) => unknown): void
  /** Drops the queued requests, and queues later ones. */
  reset(): void
}

export function createArrivals(): Arrivals {
  let arrived: Exchange[] = []
  let waiting: (() => void)[] = []
  let respond: ((exchange: Exchange) => unknown) | undefined
  return {
    add(exchange) {
      if (respond) return void respond(exchange)
      arrived.push(exchange)
      for (const resolve of waiting) resolve()
      waiting = []
    },

    async any() {
      if (arrived.length === 0) await new Promise<void>((resolve) => waiting.push(resolve))
    },

    has: () => arrived.length > 0,
    take: () => arrived.shift() as Exchange,

    serve(next) {
      respond = next
      const taken = arrived
      arrived = []
      for (const exchange of taken) next(exchange)
    },

    reset() {
      arrived = []
      respond = undefined
    },
  }
}
