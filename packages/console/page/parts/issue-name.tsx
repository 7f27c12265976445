import type { Issue } from '../api/bodies.ts'
import './issue-name.css'
import { Value } from './value.tsx'

/** The code of an issue, and its path in the event. */
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

/** `/buildId`, or `the event` for the empty JSON Pointer. */
function formatPath(path: string): string {
  return path === '' ? 'the event' : path
}
