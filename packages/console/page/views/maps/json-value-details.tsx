import { useState } from 'preact/hooks'
import { formatCount } from '../../format.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { CutText } from '../../worker/json-document.ts'
import { describeCount, valueText } from './json-row.ts'
import type { TreeItem } from './tree.ts'

const pointerCharactersMax = 300

/** The path of a value, and the value as a whole where it fits. */
export function JsonValueDetails({ item, callWorker }: { item: TreeItem; callWorker: CallWorker }) {
  const { value } = item
  const isContainer = value.type === 'object' || value.type === 'array'
  return (
    <section class="json-details" aria-label="Selected value">
      <dl>
        <dt>Path</dt>
        <dd>
          <Pointer pointer={value.pointer} />
        </dd>
        <dt>Type</dt>
        <dd>
          {value.type}
          {isContainer && `, ${describeCount(value)}`}
        </dd>
        {!isContainer && (
          <>
            <dt>Value</dt>
            <dd>
              <WholeText key={value.pointer} item={item} callWorker={callWorker} />
            </dd>
          </>
        )}
      </dl>
    </section>
  )
}

function Pointer({ pointer }: { pointer: string }) {
  if (pointer === '') return <>the whole document</>
  return (
    <>
      <code class="pointer">
        <Value text={pointer.slice(0, pointerCharactersMax)} />
        {pointer.length > pointerCharactersMax && '…'}
      </code>{' '}
      <CopyButton key={pointer} text={pointer} what="path" />
    </>
  )
}

function WholeText({ item: { value }, callWorker }: { item: TreeItem; callWorker: CallWorker }) {
  const [text, setText] = useState<CutText>(value.text)
  const [isAll, setAll] = useState(!value.text.isCut)
  async function showAll(): Promise<void> {
    setText(await callWorker('readText', value.pointer))
    setAll(true)
  }
  return (
    <>
      <pre>{valueText({ type: value.type, text })}</pre>
      {!isAll && (
        <button type="button" onClick={showAll}>
          Show all
        </button>
      )}
      {isAll && text.isCut && (
        <p class="hint">The first {formatCount(text.text.length)} characters. Download the map to see the rest.</p>
      )}
    </>
  )
}
