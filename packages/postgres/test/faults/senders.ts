import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createIngest } from '@ingest/core'
import { openPostgresStore } from '../../src/open-postgres-store.ts'

export interface LoadOptions {
  /** Servers; a sender goes to the next one with each batch, and when a request fails. */
  urls: readonly string[]
  project: Project
  senders: number
  eventsPerBatch?: number
  /** Batches of each sender; without, until {@link Load.stop}. */
  batches?: number
  /** Names the ids: loads of one name send the same events. */
  name?: string
  /** How long a sender waits for a response before it goes to the next server. Default: the 15 s of the contract. */
  timeoutMs?: number
}

export interface Project {
  projectId: string
  key: string
}

/** What senders saw, kept outside of what it is compared with. */
export interface Ledger {
  /** The ids of all events of batches that were sent at least once. */
  sent: Set<string>
  /** The ids of all events of batches with a 202. */
  acknowledged: Set<string>
  accepted: number
  duplicates: number
  /** Responses by status; `lost` connections and requests without a response in time beside them. */
  outcomes: Map<number | 'lost' | 'late', number>
  /** Of responses, in milliseconds. */
  longestMs: number
  /** When each server sent its last response of each status, by URL and status: `performance.now()`. */
  lastAt: Map<string, number>
  firstBody: Map<number, string>
  /** When each 202 came. */
  acknowledgedAt: number[]
}

export interface Load {
  ledger: Ledger
  /** Resolves when `count` more responses of this status have come from `url`, or from any server, or all are sent. */
  until(outcome: number | 'lost', options?: { count?: number; url?: string }): Promise<void>
  /** Resolves when so many events are acknowledged. */
  reached(events: number): Promise<void>
  /** Lets each sender finish its batch, which is sent until it is acknowledged. */
  stop(): Promise<Ledger>
  done: Promise<void>
}

/** A sender that waited for `Retry-After` would hide how soon a server recovers. */
const retryMs = 25

/** Starts senders, each with one batch in flight, which is sent until a 202. */
export function startLoad(options: LoadOptions): Load {
  const { urls, project, eventsPerBatch = 20, batches = Number.POSITIVE_INFINITY, timeoutMs = 15_000 } = options
  const name = options.name ?? 'e'
  const agent = new Agent({ keepAlive: true })
  const ledger: Ledger = {
    sent: new Set(),
    acknowledged: new Set(),
    accepted: 0,
    duplicates: 0,
    outcomes: new Map(),
    longestMs: 0,
    lastAt: new Map(),
    firstBody: new Map(),
    acknowledgedAt: [],
  }
  const watchers = new Set<(outcome: number | 'lost' | 'late', url: string) => void>()
  let isOver = false

  function record(outcome: number | 'lost' | 'late', url: string): void {
    ledger.outcomes.set(outcome, (ledger.outcomes.get(outcome) ?? 0) + 1)
    for (const watch of watchers) watch(outcome, url)
  }

  async function send(sender: number): Promise<void> {
    let server = sender
    for (let n = 0; n < batches && !isOver; n++) {
      server++
      const ids = Array.from({ length: eventsPerBatch }, (_, i) => `${name}-${sender}-${n}-${i}`)
      const body = batchOf(project.projectId, ids)
      for (const id of ids) ledger.sent.add(id)
      for (;;) {
        const url = urls[server % urls.length] as string
        const startedAt = performance.now()
        const response = await post({ agent, url, project, body, timeoutMs })
        const now = performance.now()
        if (typeof response.outcome === 'number') {
          ledger.longestMs = Math.max(ledger.longestMs, now - startedAt)
          ledger.lastAt.set(`${url} ${response.outcome}`, now)
          if (!ledger.firstBody.has(response.outcome)) ledger.firstBody.set(response.outcome, response.text)
        }
        if (response.outcome === 202) {
          const { accepted, duplicates } = JSON.parse(response.text)
          ledger.accepted += accepted
          ledger.duplicates += duplicates
          ledger.acknowledgedAt.push(now)
          for (const id of ids) ledger.acknowledged.add(id)
        }
        record(response.outcome, url)
        if (response.outcome === 202) break
        server++
        await sleep(retryMs * (0.5 + Math.random()))
      }
    }
  }

  const done = Promise.all(Array.from({ length: options.senders }, (_, sender) => send(sender))).then(() =>
    agent.destroy(),
  )
  return {
    ledger,
    until(outcome, { count = 1, url } = {}) {
      const seen = new Promise<void>((resolve) => {
        let left = count
        watchers.add(function watch(latest, from) {
          if (latest !== outcome || (url !== undefined && from !== url) || --left > 0) return
          watchers.delete(watch)
          resolve()
        })
      })
      return Promise.race([seen, done])
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

export function batchOf(projectId: string, ids: readonly string[]): string {
  return JSON.stringify({ events: ids.map((eventId) => ({ projectId, eventId, filler: 'x'.repeat(200) })) })
}

interface Post {
  agent: Agent
  url: string
  project: Project
  body: string
  timeoutMs: number
}

/** Sends a batch; a connection that breaks is `lost`, and a request without a response in time `late`. */
function post({ agent, url, project, body, timeoutMs }: Post): Promise<{
  outcome: number | 'lost' | 'late'
  text: string
}> {
  return new Promise((resolve) => {
    const headers = {
      'X-Project-Id': project.projectId,
      'X-Ingestion-Key': project.key,
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    }
    const timer = setTimeout(() => {
      resolve({ outcome: 'late', text: '' })
      sent.destroy()
    }, timeoutMs)
    const settle = (outcome: number | 'lost', text: string) => {
      clearTimeout(timer)
      resolve({ outcome, text })
    }
    const sent = request(`${url}/v1/events/batch`, { agent, method: 'POST', headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('end', () => settle(response.statusCode as number, Buffer.concat(chunks).toString()))
      response.on('error', () => settle('lost', ''))
    })
    sent.on('error', () => settle('lost', ''))
    sent.end(body)
  })
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
  /** Of the totals, which must equal what a read finds. */
  totals: number
}

/** Reads all events of a project, and compares them with what senders saw. */
export async function readBack(store: string, { projectId }: Project, ledgers: readonly Ledger[]): Promise<Stored> {
  const opened = await openPostgresStore(store)
  try {
    const ids: string[] = []
    for await (const { bytes } of opened.read(projectId)) {
      ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
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

/** Statuses that senders got, other than 202 and 503. */
export function unexpected({ outcomes, firstBody }: Ledger): string[] {
  return [...outcomes.keys()]
    .filter((outcome) => typeof outcome === 'number' && outcome !== 202 && outcome !== 503)
    .map((status) => `${status}: ${firstBody.get(status as number)}`)
}
