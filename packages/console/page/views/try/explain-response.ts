import type { BatchResult } from '../../api/bodies.ts'
import type { Problem } from '../../api/request-error.ts'
import { explainRefusedKey } from '../../api/session.ts'
import { formatCountOf } from '../../format.ts'
import { type BatchResponse, eventIdsOf } from './batch.ts'

export type Outcome = 'accepted' | 'duplicate' | 'accepted or duplicate' | 'rejected'

export interface EventOutcome {
  index: number
  eventId: string | null
  outcome: Outcome
  issues: BatchResult['rejected'][number]['issues']
}

/** Explains the outcome, and how a sender reacts to it. */
export function explainResponse({ status, body, retryAfter }: BatchResponse, projectId: string): string[] {
  if (status === 202) return explainResult(parse<BatchResult>(body))
  const { title, detail } = parse<Problem>(body) ?? {}
  const what = detail ?? title ?? 'The response is not from an Ingest server.'
  const later = retryAfter === undefined ? 'with backoff' : `after ${formatCountOf(retryAfter, 'second')}`
  if (status === 401)
    return [
      explainRefusedKey('events:write'),
      `Create one: ingest keys create --store DIRECTORY --project ${projectId} --scope events:write. Senders pause for 5 minutes and keep their queue.`,
    ]
  if (status === 408 || status === 429 || status >= 500)
    return [what, `Senders send the same batch again ${later}: a retry is safe.`]
  return [what, 'Nothing was stored. Senders drop such a batch and log it.']
}

function explainResult(result: BatchResult | undefined): string[] {
  if (!result) return ['The response is not from an Ingest server.']
  const { accepted, duplicates, rejected } = result
  const sentences = [
    accepted > 0 && `${formatCountOf(accepted, 'event')} accepted: stored durably.`,
    duplicates > 0 && `${formatCountOf(duplicates, 'duplicate')}: the id was stored before, and nothing changed.`,
    rejected.length > 0 &&
      `${formatCountOf(rejected.length, 'event')} rejected: the rest of the batch is not affected. Senders log rejected events and do not send them again.`,
  ].filter((each) => each !== false)
  return sentences.length > 0 ? sentences : ['The batch was empty: nothing to store.']
}

/** The outcome of each event of the sent batch; undefined if the status is not 202. */
export function outcomesOf(sent: string, { status, body }: BatchResponse): EventOutcome[] | undefined {
  const result = status === 202 ? parse<BatchResult>(body) : undefined
  if (!result) return undefined
  const { accepted, duplicates } = result
  const rejected = new Map(result.rejected.map((each) => [each.index, each]))
  // the response only counts accepted events and duplicates, without their indexes
  const others = duplicates === 0 ? 'accepted' : accepted === 0 ? 'duplicate' : 'accepted or duplicate'
  return eventIdsOf(sent).map((eventId, index) => {
    const refused = rejected.get(index)
    return { index, eventId, outcome: refused ? 'rejected' : others, issues: refused?.issues ?? [] }
  })
}

function parse<Body>(text: string): Body | undefined {
  try {
    return JSON.parse(text) as Body
  } catch {
    return undefined
  }
}

export function isJson(text: string): boolean {
  return parse(text) !== undefined
}
