import { useState } from 'preact/hooks'
import { curlCommand, sampleBatch } from '../api/sample-batch.ts'
import { useApi } from '../api/use-api.ts'
import { CopyButton } from './copy-button.tsx'
import { Preformatted } from './value.tsx'

/** Says that the project has no events, with a command that sends one. */
export function NoEvents() {
  const { projectId } = useApi().session
  const [command] = useState(() => curlCommand(projectId, sampleBatch(projectId)))
  return (
    <section class="notice" aria-label="No events yet">
      <div class="titled">
        <p>
          No event is stored in this project yet. Send one from a shell where INGEST_KEY is a key with the scope
          events:write: it appears here within seconds.
        </p>
        <CopyButton text={command} what="curl command" />
      </div>
      <Preformatted text={command} />
    </section>
  )
}
