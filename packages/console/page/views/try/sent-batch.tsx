import { formatAddress } from '../../address.ts'
import { formatCount } from '../../format.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { IssueName } from '../../parts/issue-name.tsx'
import { JsonText } from '../../parts/json-text.tsx'
import { Value } from '../../parts/value.tsx'
import type { BatchResponse } from './batch.ts'
import { type EventOutcome, explainResponse, isJson, outcomesOf } from './explain-response.ts'

export interface SentBatchProps {
  /** The body of the request. */
  sent: string
  projectId: string
  response: BatchResponse
}

/** The response to a batch: explained, by event, and verbatim. */
export function SentBatch({ sent, projectId, response }: SentBatchProps) {
  const { status, statusText, durationMs, requestId, body } = response
  const outcomes = outcomesOf(sent, response)
  // a 202 that stores nothing is not a success
  const isGood = status === 202 && (!outcomes?.length || outcomes.some(({ outcome }) => outcome !== 'rejected'))
  return (
    <>
      <p class="response-line" role="status">
        <strong class={isGood ? 'status accepted' : 'status refused'}>
          {status} <Value text={statusText} />
        </strong>
        <span>{formatCount(durationMs)} ms</span>
      </p>
      {explainResponse(response, projectId).map((sentence) => (
        <p key={sentence} class="explanation">
          <Value text={sentence} />
        </p>
      ))}
      {outcomes && outcomes.length > 0 && <Outcomes outcomes={outcomes} />}
      <div class="titled">
        <h2>Body, indented</h2>
        <CopyButton text={body} what="body of the response" />
      </div>
      {isJson(body) ? (
        <JsonText text={body} />
      ) : (
        <pre>
          <Value text={body || '(empty)'} isMultiline />
        </pre>
      )}
      {requestId && (
        <p class="muted">
          X-Request-Id{' '}
          <code>
            <Value text={requestId} />
          </code>
          , as in the server's log
        </p>
      )}
    </>
  )
}

function Outcomes({ outcomes }: { outcomes: EventOutcome[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col" class="number">
            Index
          </th>
          <th scope="col">Event id</th>
          <th scope="col">Outcome</th>
        </tr>
      </thead>
      <tbody>
        {outcomes.map(({ index, eventId, outcome, issues }) => (
          <tr key={index}>
            <td class="number">{index}</td>
            <td class="mono">
              {outcome === 'rejected' || eventId === null ? <Value text={eventId ?? '–'} /> : <FindLink id={eventId} />}
            </td>
            <td>
              <strong class={`outcome-${outcome.split(' ')[0]}`}>{outcome}</strong>
              {issues.map(({ code, path, message }) => (
                <div key={`${code} ${path}`}>
                  <IssueName code={code} path={path} /> <Value text={message} />
                </div>
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function FindLink({ id }: { id: string }) {
  return (
    <a href={formatAddress(['find'], { id })}>
      <Value text={id} />
    </a>
  )
}
