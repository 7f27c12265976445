import { useMemo } from 'preact/hooks'
import { indentJson, type JsonToken, joinTokens } from '../json-text.ts'
import './json-text.css'
import { copyExactly, VisibleText } from './value.tsx'

/** Longer texts have no colours: more elements would take a noticeable pause to render. */
const colouredTokensMax = 4_000

/** JSON, indented and coloured; numbers and escapes keep their spelling. */
export function JsonText({ text }: { text: string }) {
  const tokens = useMemo(() => indentJson(text), [text])
  return (
    <pre class="json" onCopy={copyExactly}>
      {tokens.length > colouredTokensMax ? (
        <VisibleText text={joinTokens(tokens)} isMultiline />
      ) : (
        tokens.map((token) => <Token {...token} />)
      )}
    </pre>
  )
}

function Token({ kind, text }: JsonToken) {
  // only whitespace between tokens has line breaks
  if (kind === 'punctuation') return <VisibleText text={text} isMultiline />
  return (
    <bdi class={kind}>
      <VisibleText text={text} />
    </bdi>
  )
}
