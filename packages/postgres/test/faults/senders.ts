import { setTimeout as sleep } from 'node:timers/promises'
import { createIngest } from '@ingest/core'
import type { Test } from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'

export interface LoadOptions {
  /** The servers; a sender goes to the next one with each batch, and when a request fails. */
  urls: readonly string[]
  project: Project
  senders: number
  eventsPerBatch?: number
  /** Batches of each sender. Default: until {@link Load.stop}. */
  batches?: number
  /** How long a sender waits for a response before it goes to the next server. Default: the 15 s of the contract. */
  timeoutMs?: number
}

export interface Project {
  projectId: string
  key: string
}

/** The status of a response; `lost` for a connection that broke, `late` for a request without a response in time. */
type Outcome = number | 'lost' | 'late'

/** What senders saw, kept apart from the store that it is compared with. */
export interface Ledger {
  /** The ids of all events of batches that were sent at least once. */
  sent: Set<string>
  /** The ids of all events of batches with a 202. */
  acknowledged: Set<string>
  outcomes: Map<Outcome, number>
  /** Responses other than 202 and 503. */
  unexpected: string[]
  /** The time of each 202. */
  acknowledgedAt: number[]
}

export interface Load {
  ledger: Ledger
  /** Resolves after `count` more responses of this status from `url` or any server, or when all batches are sent. */
  until(outcome: Outcome, options?: { count?: number; url?: string }): Promise<void>
  /** Resolves when this number of events is acknowledged. */
  reached(events: number): Promise<void>
  /** Lets each sender finish its batch, which is sent until it is acknowledged. */
  stop(): Promise<Ledger>
  done: Promise<unknown>
}

/** Not the `Retry-After` of the server, which would hide how soon it recovers. */
const retryMs = 25

/** Starts senders. Each has one batch in flight, which it sends until it gets a 202. */
export function startLoad(options: LoadOptions): Load {
  const { urls, project, eventsPerBatch = 20, batches = Number.POSITIVE_INFINITY, timeoutMs = 15_000 } = options
  const ledger: Ledger = {
    sent: new Set(),
    acknowledged: new Set(),
    outcomes: new Map(),
    unexpected: [],
    acknowledgedAt: [],
  }
  const watchers = new Set<(outcome: Outcome, url: string) => void>()
  let isOver = false

  async function send(sender: number): Promise<void> {
    let server = sender
    for (let n = 0; n < batches && !isOver; n++) {
      const ids = Array.from({ length: eventsPerBatch }, (_, i) => `e-${sender}-${n}-${i}`)
      for (const id of ids) ledger.sent.add(id)
      for (let outcome: Outcome = 'lost'; outcome !== 202; ) {
        const url = urls[++server % urls.length] as string
        const response = await post({ url, project, ids, timeoutMs })
        outcome = response.outcome
        ledger.outcomes.set(outcome, (ledger.outcomes.get(outcome) ?? 0) + 1)
        if (outcome === 202) {
          ledger.acknowledgedAt.push(performance.now())
          for (const id of ids) ledger.acknowledged.add(id)
        } else {
          if (typeof outcome === 'number' && outcome !== 503) ledger.unexpected.push(`${outcome}: ${response.text}`)
          await sleep(retryMs * (0.5 + Math.random()))
        }
        for (const watch of watchers) watch(outcome, url)
      }
    }
  }

  const done = Promise.all(Array.from({ length: options.senders }, (_, sender) => send(sender)))
  return {
    ledger,
    async until(outcome, { count = 1, url } = {}) {
      const seen = new Promise<void>((resolve) => {
        let left = count
        watchers.add(function watch(latest, from) {
          if (latest !== outcome || (url !== undefined && from !== url) || --left > 0) return
          watchers.delete(watch)
          resolve()
        })
      })
      await Promise.race([seen, done])
    },
    async reached(events) {
      while (ledger.acknowledged.size < events) await this.until(202)
    },
    async stop() {
      isOver = true
      await done
      return ledger
    },
    done,
  }
}

interface Batch {
  url: string
  project: Project
  ids: readonly string[]
  timeoutMs: number
}

async function post({ url, project, ids, timeoutMs }: Batch): Promise<{ outcome: Outcome; text: string }> {
  const { projectId, key } = project
  const events = ids.map((eventId) => ({ projectId, eventId, filler: 'x'.repeat(200) }))
  try {
    const response = await fetch(`${url}/v1/events/batch`, {
      method: 'POST',
      headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify({ events }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    return { outcome: response.status, text: await response.text() }
  } catch (error) {
    return { outcome: (error as Error).name === 'TimeoutError' ? 'late' : 'lost', text: '' }
  }
}

/** Creates a project with a key. */
export async function createProject(store: string, projectId: string): Promise<Project> {
  const ingest = createIngest({ store: await openPostgresStore(store) })
  const { key } = await ingest.keys.create(projectId)
  await ingest.close()
  return { projectId, key }
}

export interface Stored {
  events: number
  /** Ids that are stored more than once. */
  doubled: string[]
  /** Acknowledged, but not stored. */
  lost: string[]
  /** Stored, but never sent. */
  unknown: string[]
  /** The number of events in the totals, which must equal the number that a read finds. */
  totals: number
}

/** Reads all events of a project, and compares them with what senders saw. */
export async function readBack(store: string, { projectId }: Project, ledgers: readonly Ledger[]): Promise<Stored> {
  const opened = await openPostgresStore(store)
  try {
    const ids: string[] = []
    for await (const page of opened.read(projectId)) {
      for (const { bytes } of page) ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
    }
    const stored = new Set(ids)
    const seen = new Set<string>()
    const doubled = ids.filter((id) => seen.size === seen.add(id).size)
    return {
      events: ids.length,
      doubled,
      lost: ledgers.flatMap(({ acknowledged }) => [...acknowledged].filter((id) => !stored.has(id))),
      unknown: [...stored].filter((id) => !ledgers.some(({ sent }) => sent.has(id))),
      totals: (await opened.totals(projectId)).events,
    }
  } finally {
    await opened.close()
  }
}

/** Checks that nothing is lost or stored twice, and that senders got only the statuses 202 and 503. */
export async function checkStored(t: Test, store: string, project: Project, ledgers: readonly Ledger[]): Promise<void> {
  const { events, ...stored } = await readBack(store, project, ledgers)
  t.strictSame(stored, { doubled: [], lost: [], unknown: [], totals: events })
  for (const { acknowledged, outcomes, unexpected } of ledgers) {
    t.strictSame(unexpected, [])
    t.comment(`${acknowledged.size} acknowledged, ${events} stored, ${JSON.stringify([...outcomes])}`)
  }
}
