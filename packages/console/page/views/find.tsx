import { useState } from 'preact/hooks'
import { type Address, formatAddress } from '../address.ts'
import type { EventLine } from '../api/event-lines.ts'
import { findEvent } from '../api/find-event.ts'
import { useLoaded } from '../api/use-api.ts'
import { EventDetail } from '../parts/event-detail.tsx'
import { Content, Notice } from '../parts/notice.tsx'
import { Time } from '../parts/time.tsx'
import { Value } from '../parts/value.tsx'
import './find.css'

/** `#/find?id=…`: whether the event with this id is stored, when it was received, and its bytes. */
export function FindView({ address }: { address: Address }) {
  const id = address.query.get('id') ?? ''
  return (
    <>
      <IdField key={id} id={id} />
      {id === '' ? (
        <Notice kind="empty">Enter the id of an event to see whether it is stored.</Notice>
      ) : (
        <Found id={id} />
      )}
    </>
  )
}

function IdField({ id }: { id: string }) {
  const [typed, setTyped] = useState(id)
  function submit(event: SubmitEvent): void {
    event.preventDefault()
    location.hash = formatAddress(['find'], { id: typed })
  }
  return (
    <form class="controls" onSubmit={submit}>
      <label class="grow">
        Event id
        <input
          class="mono"
          name="id"
          value={typed}
          onInput={({ currentTarget }) => setTyped(currentTarget.value)}
          required
          autocomplete="off"
          spellcheck={false}
        />
      </label>
      <button type="submit">Find</button>
    </form>
  )
}

function Found({ id }: { id: string }) {
  const loaded = useLoaded((api, signal) => findEvent(api, id, signal), [id])
  return (
    <Content loaded={loaded} what="find events by their id">
      {(line) => (line ? <FoundEvent id={id} line={line} /> : <NotStored id={id} at={loaded.at} />)}
    </Content>
  )
}

function FoundEvent({ id, line }: { id: string; line: EventLine }) {
  return (
    <>
      <p class="found-state" role="status">
        <strong class={line.erased === undefined ? 'stored' : 'erased'}>
          {line.erased === undefined ? 'Stored' : 'Erased'}
        </strong>{' '}
        received <Time at={line.receivedAt} />
      </p>
      <h2 class="mono found-id">
        <Value text={id} />
      </h2>
      <EventDetail line={line} />
    </>
  )
}

function NotStored({ id, at = Date.now() }: { id: string; at: number | undefined }) {
  return (
    <>
      <p class="found-state" role="status">
        <strong class="missing">Not stored</strong> as of <Time at={at} />
      </p>
      <p class="muted">
        No event of this project has the id{' '}
        <code>
          <Value text={id} />
        </code>
        . Ids are compared byte for byte.
        {id !== id.trim() && ' This one begins or ends with a space.'} If it was rejected, it may be among the samples
        in <a href={formatAddress(['rejected'])}>Rejected</a>.
      </p>
    </>
  )
}
