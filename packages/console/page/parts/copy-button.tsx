import { useState } from 'preact/hooks'

/** Copies a text. `what` completes the label "Copy …". */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [state, setState] = useState('Copy')
  async function copy(): Promise<void> {
    try {
      await copyText(text)
      setState('Copied')
    } catch {
      setState('Not copied')
    }
  }
  return (
    <button type="button" class="copy" aria-label={`${state} ${what}`} onClick={copy} onBlur={() => setState('Copy')}>
      {state}
    </button>
  )
}

async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  // without TLS, browsers only allow copying a selection
  const field = document.createElement('textarea')
  field.value = text
  document.body.append(field)
  field.select()
  const isCopied = document.execCommand('copy')
  field.remove()
  if (!isCopied) throw new Error('The browser refuses to copy.')
}
