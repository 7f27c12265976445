import type { Issue } from '../api/bodies.ts'
import './issue-name.css'
import { Value } from './value.tsx'

/** The code of an issue and where in the event it is. */
export function IssueName({ code, path }: Pick<Issue, 'code' | 'path'>) {
  return (
    <>
      <code class="issue-code">
        <Value text={code} />
      </code>{' '}
      <code>
        <Value text={formatPath(path)} />
      </code>
    </>
  )
}

/** `/buildId`, and `the event` for the event itself, to which the empty JSON Pointer points. */
function formatPath(path: string): string {
  return path === '' ? 'the event' : path
}
