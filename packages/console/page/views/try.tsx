import { useId, useState } from 'preact/hooks'
import { apiUrl } from '../api/api.ts'
import { keyHint, keyPattern, loadWriteKey, saveWriteKey } from '../api/session.ts'
import { useApi } from '../api/use-api.ts'
import { CopyButton } from '../parts/copy-button.tsx'
import { Notice } from '../parts/notice.tsx'
import { Value } from '../parts/value.tsx'
import { batchPath, curlCommand, findBatchProblem, sampleBatch, sendBatch } from './try/batch.ts'
import { SentBatch, type SentBatchProps } from './try/sent-batch.tsx'
import './try/try.css'

type Attempt = SentBatchProps | 'sending' | 'no response' | undefined

/** Sends a batch with a separate key and shows the exact response. */
export function TryView() {
  const { projectId } = useApi().session
  const [body, setBody] = useState(() => sampleBatch(projectId))
  const [attempt, setAttempt] = useState<Attempt>()

  async function submit(key: string): Promise<void> {
    saveWriteKey(projectId, key)
    setAttempt('sending')
    try {
      setAttempt({ sent: body, projectId, response: await sendBatch({ projectId, key }, body) })
    } catch {
      setAttempt('no response')
    }
  }

  return (
    <div class="try">
      <div>
        <p class="muted">
          Accepted events are stored in project <Value text={projectId} /> permanently. An event with a buildId freezes
          that build.
        </p>
        <BatchForm
          projectId={projectId}
          body={body}
          isSending={attempt === 'sending'}
          onBody={setBody}
          onNewSample={() => setBody(sampleBatch(projectId))}
          onSend={submit}
        />
      </div>
      <section class="response" aria-label="Response" aria-busy={attempt === 'sending'}>
        {attempt === undefined && <Notice kind="empty">The response appears here.</Notice>}
        {attempt === 'sending' && <Notice kind="loading">Sending…</Notice>}
        {attempt === 'no response' && (
          <Notice kind="failed">
            No response: the events may or may not be stored. Send the same batch again: a retry is safe.
          </Notice>
        )}
        {typeof attempt === 'object' && <SentBatch {...attempt} />}
      </section>
      <Curl command={curlCommand(apiUrl(batchPath), projectId, body)} />
    </div>
  )
}

interface BatchFormProps {
  projectId: string
  body: string
  isSending: boolean
  onBody(body: string): void
  onNewSample(): void
  onSend(key: string): void
}

function BatchForm({ projectId, body, isSending, onBody, onNewSample, onSend }: BatchFormProps) {
  const problemId = useId()
  const problem = findBatchProblem(body)
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault()
        onSend(String(new FormData(event.currentTarget).get('write-key')).trim())
      }}
    >
      <label>
        Batch
        <textarea
          class="mono"
          name="batch"
          rows={18}
          spellcheck={false}
          value={body}
          aria-describedby={problemId}
          aria-invalid={problem !== undefined}
          onInput={({ currentTarget }) => onBody(currentTarget.value)}
        />
      </label>
      <p id={problemId} class="batch-problem" role="status">
        {problem && <Value text={`${problem} You can still send it.`} />}
      </p>
      <label>
        Key with the scope events:write
        <input
          name="write-key"
          type="password"
          required
          pattern={`\\s*${keyPattern}\\s*`}
          title={keyHint}
          defaultValue={loadWriteKey(projectId)}
          autocomplete="off"
          spellcheck={false}
          placeholder="ik_…"
        />
      </label>
      <p class="hint">The key stays in this tab, apart from the key that you signed in with, until you sign out.</p>
      <div class="controls">
        <button type="submit" class="primary" disabled={isSending}>
          Send
        </button>
        <button type="button" onClick={onNewSample}>
          New sample
        </button>
      </div>
    </form>
  )
}

function Curl({ command }: { command: string }) {
  return (
    <section aria-label="The same with curl">
      <div class="titled">
        <h2>The same with curl</h2>
        <CopyButton text={command} what="curl command" />
      </div>
      <p class="hint">In a shell where INGEST_KEY is a key with the scope events:write.</p>
      <pre>
        <Value text={command} isMultiline />
      </pre>
    </section>
  )
}
