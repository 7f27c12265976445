import { useId, useState } from 'preact/hooks'
import type { BuildPage } from '../api/bodies.ts'
import { useLoaded } from '../api/use-api.ts'
import { formatCountOf } from '../format.ts'
import './build-field.css'

interface BuildFieldProps {
  label?: string
  /** '' for none. */
  value: string
  /** Shown for none; without it, a build must be chosen. */
  none?: string
  onChoose(buildId: string): void
}

/** Maximum number of builds offered at a time; further ones are found by typing. */
const offeredMax = 100

/** Chooses a build of the project by its id; offers the newest ones whose id contains what is typed. */
export function BuildField({ label = 'Build', value, none, onChoose }: BuildFieldProps) {
  const id = useId()
  const [isOffering, setOffering] = useState(false)
  /** Undefined until the user types. */
  const [typed, setTyped] = useState<string>()
  const search = isOffering ? (typed ?? '').trim() : undefined
  const { data } = useLoaded(
    async (api, signal) =>
      search === undefined
        ? undefined
        : api.json<BuildPage>('v1/builds', { query: { search: search || undefined, limit: offeredMax }, signal }),
    [search],
  )
  return (
    <label class="build-field">
      {label}
      <input
        list={id}
        value={typed ?? value}
        placeholder={none}
        required={none === undefined}
        maxLength={128}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        onFocus={({ currentTarget }) => {
          setOffering(true)
          currentTarget.select()
        }}
        onInput={({ currentTarget }) => setTyped(currentTarget.value)}
        onChange={({ currentTarget }) => {
          const buildId = currentTarget.value.trim()
          setTyped(undefined)
          if (buildId !== value && (buildId !== '' || none !== undefined)) onChoose(buildId)
        }}
        onBlur={() => setOffering(false)}
      />
      <datalist id={id}>
        {data?.builds.map(({ buildId, frozenAt, maps }) => (
          <option key={buildId} value={buildId} label={frozenAt === null ? 'open' : formatCountOf(maps, 'map')} />
        ))}
      </datalist>
    </label>
  )
}
