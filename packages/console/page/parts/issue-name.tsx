import type { Issue } from '../api/bodies.ts'
import './issue-name.css'

/** The code of an issue and where in the event it is. */
export function IssueName({ code, path }: Pick<Issue, 'code' | 'path'>) {
  return (
    <>
      <code class="issue-code">{code}</code> <code>{formatPath(path)}</code>
    </>
  )
}

/** `/buildId`, and `the event` for the event itself, to which the empty JSON Pointer points. */
export function formatPath(path: string): string {
  return path === '' ? 'the event' : path
}
