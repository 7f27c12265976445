import type { TargetedKeyboardEvent } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { useLoaded } from '../api/use-api.ts'
import { formatCount, formatCountOf } from '../format.ts'
import { visibleText } from '../visible-text.ts'
import { Failure } from './notice.tsx'
import { Value } from './value.tsx'
import { rowAfterKey } from './visible-rows.ts'
import './combobox.css'

export interface Option {
  value: string
  /** Default: the value. */
  label?: string
  /** Distinguishes the option from others, such as a count. */
  detail?: string
}

export interface OptionPage {
  options: readonly Option[]
  /** Whether more options match. */
  isCut: boolean
}

export interface ComboboxProps {
  label: string
  value: string
  /** All options, or a search for those that match a text; '' matches all. */
  options: readonly Option[] | ((text: string, signal: AbortSignal) => Promise<OptionPage>)
  /** Shown for the value ''. */
  placeholder?: string
  onChoose(value: string): void
}

/** Maximum number of options listed at a time; further ones are found by typing. */
export const optionsMax = 100

const searchDelayMs = 150
const pageRows = 10

/**
 * A field with a list of options: the editable combobox with list autocomplete of the ARIA Authoring Practices Guide.
 * Text that is not an option is dropped.
 */
export function Combobox({ label, value, options, placeholder, onChoose }: ComboboxProps) {
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  const [isOpen, setOpen] = useState(false)
  /** Undefined until the user types; then the whole list is shown. */
  const [typed, setTyped] = useState<string>()
  const [active, setActive] = useState<string>()
  const { page, error } = useOptions(options, isOpen ? (typed ?? '') : undefined)
  const found = page?.options ?? []
  const row = found.findIndex((option) => option.value === active)
  const selected = Array.isArray(options) ? options.find((option) => option.value === value) : undefined
  const text = labelOf(selected ?? { value })

  useEffect(() => document.getElementById(`${id}-${row}`)?.scrollIntoView({ block: 'nearest' }), [row, isOpen, page])

  useEffect(() => {
    // select the value, so that typing replaces it
    if (!isOpen && document.activeElement === input.current) input.current?.select()
  }, [isOpen, text])

  function open(): void {
    if (!isOpen) setActive(value)
    setOpen(true)
  }
  function close(): void {
    setOpen(false)
    setTyped(undefined)
    setActive(undefined)
  }
  function choose(next: string): void {
    close()
    if (next !== value) onChoose(next)
  }
  function press(event: TargetedKeyboardEvent<HTMLInputElement>): void {
    const { key, altKey, ctrlKey, metaKey } = event
    if (ctrlKey || metaKey || event.isComposing) return
    if (isOpen && (key === 'Escape' || (altKey && key === 'ArrowUp'))) close()
    else if (isOpen && key === 'Enter') {
      const option = found[row] ?? found.find((option) => labelOf(option) === typed?.trim())
      if (option) choose(option.value)
    } else if (moveKeys.has(key)) {
      if (isOpen && !altKey) setActive(found[rowAfterKey(key, row, found.length, pageRows) ?? -1]?.value)
      open()
    } else return
    event.preventDefault()
    // Escape closes only the list
    event.stopPropagation()
  }

  return (
    <div class="combobox">
      <label for={id}>{label}</label>
      <input
        ref={input}
        id={id}
        role="combobox"
        aria-autocomplete="list"
        aria-expanded={isOpen}
        aria-controls={`${id}-list`}
        aria-activedescendant={isOpen && row >= 0 ? `${id}-${row}` : undefined}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        title={text}
        placeholder={placeholder}
        value={typed ?? text}
        onFocus={({ currentTarget }) => currentTarget.select()}
        onClick={open}
        onInput={({ currentTarget }) => {
          setTyped(currentTarget.value)
          setActive(undefined)
          setOpen(true)
        }}
        onKeyDown={press}
        onBlur={close}
      />
      <div class="combobox-list" hidden={!isOpen}>
        {/* the focus stays in the field */}
        <div id={`${id}-list`} role="listbox" aria-label={label} onMouseDown={(event) => event.preventDefault()}>
          {found.map((option, index) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the field
            <div
              key={option.value}
              id={`${id}-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === row}
              class={option.value === value ? 'chosen' : undefined}
              onClick={() => choose(option.value)}
            >
              <Value text={option.label ?? option.value} />{' '}
              {option.detail && <span class="muted">{option.detail}</span>}
            </div>
          ))}
        </div>
        {error ? <Failure error={error} what="search" /> : <p class="hint">{isOpen && describe(page)}</p>}
      </div>
      <span class="visually-hidden" role="status">
        {isOpen && page && formatCountOf(found.length, 'option')}
      </span>
    </div>
  )
}

const moveKeys = new Set(['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp'])

function labelOf({ value, label = value }: Option): string {
  return visibleText(label)
}

function describe(page: OptionPage | undefined): string {
  if (!page) return 'Searching…'
  if (page.options.length === 0) return page.isCut ? 'Nothing matches among the first.' : 'Nothing matches.'
  return page.isCut ? `The first ${formatCount(page.options.length)}: type to find others.` : ''
}

/**
 * The matching options; until they are found, those of the previous text. `text` is undefined while no options are
 * shown.
 */
function useOptions(options: ComboboxProps['options'], text: string | undefined) {
  const search = typeof options === 'function' ? options : undefined
  const query = useDelayed(search && text)
  const { data, error } = useLoaded(
    async (_api, signal) => (query === undefined ? undefined : search?.(query, signal)),
    [query],
  )
  const last = useRef<OptionPage | undefined>(undefined)
  if (data || text === undefined) last.current = data
  if (!search) return { page: text === undefined ? undefined : matching(options as readonly Option[], text) }
  return { page: data ?? last.current, error }
}

/** The typed text after a pause; at once when typing begins or ends. */
function useDelayed(text: string | undefined): string | undefined {
  const [delayed, setDelayed] = useState(text)
  const isNow = text === undefined || delayed === undefined
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(text), isNow ? 0 : searchDelayMs)
    return () => clearTimeout(timer)
  }, [text])
  return isNow ? text : delayed
}

function matching(options: readonly Option[], text: string): OptionPage {
  const wanted = text.trim().toLowerCase()
  const found = options.filter((option) => labelOf(option).toLowerCase().includes(wanted))
  return { options: found.slice(0, optionsMax), isCut: found.length > optionsMax }
}
