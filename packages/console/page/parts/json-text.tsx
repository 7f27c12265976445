import { useMemo } from 'preact/hooks'
import { indentJson, joinTokens } from '../json-text.ts'
import './json-text.css'

/** More elements take a noticeable pause to render: a longer text has no colours. */
const colouredTokensMax = 4_000

/** JSON, indented and coloured; numbers and escapes keep their spelling. */
export function JsonText({ text }: { text: string }) {
  const tokens = useMemo(() => indentJson(text), [text])
  return (
    <pre class="json">
      {tokens.length > colouredTokensMax
        ? joinTokens(tokens)
        : tokens.map(({ kind, text }) => (kind === 'punctuation' ? text : <span class={kind}>{text}</span>))}
    </pre>
  )
}
