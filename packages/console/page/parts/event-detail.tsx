import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { EventLine } from '../api/event-lines.ts'
import type { EventFilter } from '../event-filter.ts'
import { formatBytes } from '../format.ts'
import { indentJson } from '../json-text.ts'
import { CopyButton } from './copy-button.tsx'
import './event-detail.css'
import { EventMembers } from './event-members.tsx'
import { Time } from './time.tsx'
import { Preformatted, Value } from './value.tsx'

/**
 * A stored or erased event: when it was received, its cursor, links that add its members to `filter`, its exact bytes,
 * and the same bytes indented.
 */
export function EventDetail({ line, filter }: { line: EventLine; filter?: EventFilter }) {
  const { cursor, receivedAt, text, erased } = line
  return (
    <div class="event-detail">
      <dl>
        <div>
          <dt>Received</dt>
          <dd>
            <Time at={receivedAt} /> <span class="muted mono">{new Date(receivedAt).toISOString()}</span>
          </dd>
        </div>
        <div>
          <dt>Cursor</dt>
          <dd>
            <code>
              <Value text={cursor} />
            </code>{' '}
            <CopyButton key={cursor} text={cursor} what="cursor" />
          </dd>
        </div>
        {text !== undefined && (
          <div>
            <dt>Size</dt>
            <dd>{formatBytes(new TextEncoder().encode(text).length)}</dd>
          </div>
        )}
      </dl>
      {text !== undefined && <EventMembers text={text} receivedAt={receivedAt} filter={filter} />}
      {text !== undefined && <EventText text={text} />}
      {erased !== undefined && (
        <p class="notice">
          This event was erased: its bytes are gone. Its id stays known, so that a retry is a duplicate.
        </p>
      )}
    </div>
  )
}

/** The exact text of an event, next to the indented text. */
export function EventText({ text }: { text: string }) {
  const indented = useMemo(() => indentJson(text), [text])
  return (
    <div class="event-texts">
      <Titled title="Exact bytes" copied={text}>
        <Preformatted text={text} />
      </Titled>
      <Titled title="Formatted text" copied={indented}>
        <Preformatted text={indented} />
      </Titled>
    </div>
  )
}

function Titled({ title, copied, children }: { title: string; copied: string; children: ComponentChildren }) {
  return (
    <section aria-label={title}>
      <div class="titled">
        <h3>{title}</h3>
        <CopyButton key={copied} text={copied} what={title.toLowerCase()} />
      </div>
      {children}
    </section>
  )
}
