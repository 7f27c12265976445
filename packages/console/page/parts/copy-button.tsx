import { useEffect, useState } from 'preact/hooks'

const shownMs = 2_000

/** Copies a text and says whether that worked. */
export function CopyButton({ text, children = 'Copy' }: { text: string; children?: string }) {
  const [outcome, setOutcome] = useState<string>()
  useEffect(() => {
    if (outcome === undefined) return
    const timer = setTimeout(() => setOutcome(undefined), shownMs)
    return () => clearTimeout(timer)
  }, [outcome])
  return (
    <button
      type="button"
      class="copy"
      onClick={async () => setOutcome((await copy(text)) ? 'Copied' : 'Select and copy it')}
    >
      {outcome ?? children}
    </button>
  )
}

async function copy(text: string): Promise<boolean> {
  try {
    // undefined where the page is served without TLS by another host
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copySelected(text)
  }
}

function copySelected(text: string): boolean {
  const focused = document.activeElement
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  const isCopied = document.execCommand('copy')
  area.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return isCopied
}
