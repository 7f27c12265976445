import type { Api } from '../api/api.ts'
import type { BuildPage } from '../api/bodies.ts'
import { useApi } from '../api/use-api.ts'
import { formatCountOf } from '../format.ts'
import { Combobox, type OptionPage, optionsMax } from './combobox.tsx'

export interface BuildComboboxProps {
  label?: string
  /** '' for none. */
  value: string
  /** The text of the option for none, if there is such an option. */
  none?: string
  onChoose(buildId: string): void
}

/** Maximum number of pages without a match that one search reads: each covers 10,000 builds. */
const pagesMax = 10

/** Chooses a build of the project: newest first, searchable by a part of its id. */
export function BuildCombobox({ label = 'Build', value, none, onChoose }: BuildComboboxProps) {
  const api = useApi()
  return (
    <Combobox
      label={label}
      value={value}
      {...(none !== undefined && { placeholder: none })}
      options={async (text, signal) => {
        const page = await findBuilds(api, text.trim(), signal)
        const isOffered = none !== undefined && text === ''
        return isOffered ? { ...page, options: [{ value: '', label: none }, ...page.options] } : page
      }}
      onChoose={onChoose}
    />
  )
}

async function findBuilds(api: Api, text: string, signal: AbortSignal): Promise<OptionPage> {
  let cursor: string | undefined
  for (let pages = 1; ; pages++) {
    const query = { search: text || undefined, limit: optionsMax, cursor }
    const { builds, next } = await api.json<BuildPage>('v1/builds', { query, signal })
    if (builds.length > 0 || next === null || pages === pagesMax) {
      const options = builds.map(({ buildId, frozenAt, maps }) => ({
        value: buildId,
        detail: frozenAt === null ? 'open, no events' : formatCountOf(maps, 'map'),
      }))
      return { options, isCut: next !== null }
    }
    cursor = next
  }
}
