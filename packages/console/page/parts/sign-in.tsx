import { useEffect, useState } from 'preact/hooks'
import { formatAddress } from '../address.ts'
import { createApi } from '../api/api.ts'
import { RequestError } from '../api/request-error.ts'
import { keyHint, keyPattern, refusedKey, type Session } from '../api/session.ts'
import { quoteForShell } from '../shell-quote.ts'
import { visibleText } from '../visible-text.ts'
import { Notice } from './notice.tsx'
import { Value } from './value.tsx'

/** The address of the sign-in to a further project. */
export const signInAddress = '#/sign-in'

export function isSignIn(fragment: string): boolean {
  return fragment === signInAddress
}

interface SignInProps {
  /** The project that the address names. */
  projectId: string | undefined
  /** The projects that this tab is signed in to. */
  others: readonly string[]
  /** Why the previous session ended. */
  reason: string | undefined
  onSignIn(session: Session): void
}

/** Asks for a project and a key, and checks them with one request. */
export function SignIn({ projectId = '', others, reason, onSignIn }: SignInProps) {
  const [problem, setProblem] = useState(reason)
  const [isChecking, setChecking] = useState(false)
  useEffect(() => {
    document.title = ['Sign in', visibleText(projectId), 'Ingest'].filter(Boolean).join(' – ')
  }, [projectId])

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    const session = { projectId: String(fields.get('project')).trim(), key: String(fields.get('key')).trim() }
    const invalid = checkSession(session)
    setProblem(invalid)
    if (invalid) return
    setChecking(true)
    try {
      await createApi(session).json('v1/builds', { query: { limit: 1 } })
      onSignIn(session)
    } catch (error) {
      setProblem(error instanceof RequestError ? explainRefusal(error) : String(error))
    } finally {
      setChecking(false)
    }
  }

  return (
    <main class="sign-in">
      <h1>Ingest console</h1>
      {others.length > 0 && <Others projectId={projectId} others={others} />}
      <form onSubmit={submit}>
        <label>
          Project
          <input
            name="project"
            defaultValue={projectId}
            required
            maxLength={64}
            autocomplete="username"
            spellcheck={false}
          />
        </label>
        <label>
          Key with the scope read
          <input name="key" type="password" required autocomplete="off" spellcheck={false} placeholder="ik_…" />
        </label>
        <p class="hint">
          The key stays in this tab. Create one:
          <code>
            ingest keys create --store DIRECTORY --project <Value text={quoteForShell(projectId || 'demo')} /> --scope
            read
          </code>
        </p>
        {problem && (
          <Notice kind="failed">
            <Value text={problem} />
          </Notice>
        )}
        <button type="submit" class="primary" disabled={isChecking}>
          {isChecking ? 'Checking…' : 'Open'}
        </button>
      </form>
    </main>
  )
}

/** Links back to the projects of this tab. */
function Others({ projectId, others }: Pick<SignInProps, 'others'> & { projectId: string }) {
  return (
    <p class="notice">
      {projectId ? (
        <>
          This tab is not signed in to <Value text={projectId} />, the project of this address: sign in, or go back to
        </>
      ) : (
        'This tab is signed in to'
      )}{' '}
      {others.map((other, index) => (
        <>
          {index > 0 && ', '}
          <a href={formatAddress([], {}, other)}>
            <Value text={other} />
          </a>
        </>
      ))}
      .
    </p>
  )
}

function checkSession({ projectId, key }: Session): string | undefined {
  if (!/^[\w.-]{1,64}$/.test(projectId)) return 'A project id has 1 to 64 characters: A-Z a-z 0-9 . _ -'
  if (!new RegExp(`^${keyPattern}$`).test(key)) return keyHint
  return undefined
}

function explainRefusal({ kind, message }: RequestError): string {
  if (kind === 'unauthorized') return refusedKey
  if (kind === 'unsupported') return 'There is no Ingest API at this address.'
  return message
}
