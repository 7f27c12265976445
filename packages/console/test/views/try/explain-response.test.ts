import t from 'tap'
import { type BatchResponse, explainResponse, outcomesOf } from '../../../page/views/try/explain-response.ts'

function response(status: number, body: object | string, retryAfter?: number): BatchResponse {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { status, statusText: '', body: text, requestId: 'r', retryAfter, durationMs: 1 }
}
const explain = (...args: Parameters<typeof response>) => explainResponse(response(...args), 'demo').join(' ')

t.test('each status says what happened and what a sender does', async (t) => {
  t.match(explain(202, { accepted: 2, duplicates: 0, rejected: [] }), /^2 events accepted: stored durably\.$/)
  t.match(explain(202, { accepted: 0, duplicates: 1, rejected: [{}] }), /^1 duplicate: .* 1 event rejected: /)
  t.match(explain(202, { accepted: 0, duplicates: 0, rejected: [] }), /empty/)
  t.match(explain(400, { detail: 'No array.' }), /^No array\. Nothing was stored\. Senders drop/)
  t.match(explain(401, {}), /events:write.*--project demo --scope events:write/)
  t.match(explain(413, { detail: 'Too large.' }), /^Too large\. Nothing was stored/)
  t.match(explain(429, { detail: 'Slow.' }, 3), /^Slow\. .* again after 3 seconds/)
  t.match(explain(503, { detail: 'Draining.' }, 1), /^Draining\. .* again after 1 second/)
  t.match(explain(500, { detail: 'Bug.' }), /^Bug\. .* with backoff: a retry is safe/)
  t.match(explain(502, '<html>'), /not from an Ingest server/)
  t.match(explain(202, 'x'), /not from an Ingest server/)
})

const sent = JSON.stringify({ events: [{ eventId: 'a' }, { eventId: 'b' }, {}] })
const issues = [{ code: 'required', path: '/eventId', message: 'Missing.' }]
const outcomes = (body: object) => outcomesOf(sent, response(202, body))?.map(({ outcome }) => outcome)

t.test('each event has its outcome, as far as the response says it', async (t) => {
  const rejected = [{ index: 2, eventId: null, issues }]
  t.strictSame(outcomes({ accepted: 2, duplicates: 0, rejected }), ['accepted', 'accepted', 'rejected'])
  t.strictSame(outcomes({ accepted: 0, duplicates: 2, rejected }), ['duplicate', 'duplicate', 'rejected'])
  const unclear = 'accepted or duplicate'
  t.strictSame(outcomes({ accepted: 1, duplicates: 1, rejected }), [unclear, unclear, 'rejected'])
  t.strictSame(outcomesOf(sent, response(202, { accepted: 2, duplicates: 0, rejected }))?.[2], {
    index: 2,
    eventId: null,
    outcome: 'rejected',
    issues,
  })
  t.equal(outcomesOf(sent, response(400, {})), undefined)
})
