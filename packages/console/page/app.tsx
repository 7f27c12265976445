import type { ComponentChildren } from 'preact'
import { useEffect, useErrorBoundary, useMemo, useRef, useState } from 'preact/hooks'
import { type Address, formatAddress, parseAddress } from './address.ts'
import { createApi } from './api/api.ts'
import { createConnection } from './api/connection.ts'
import { explainRefusedKey, loadSession, type Session, saveSession } from './api/session.ts'
import { ApiContext, ConnectionContext, useConnection } from './api/use-api.ts'
import { Notice } from './parts/notice.tsx'
import { SignIn } from './parts/sign-in.tsx'
import { Time } from './parts/time.tsx'
import { Value } from './parts/value.tsx'
import { views } from './views/views.ts'

/** The whole page: the sign-in, or the view that the address names. */
export function App() {
  const [session, setSession] = useState(loadSession)
  const [lastProjectId, setLastProjectId] = useState(session?.projectId ?? '')
  const [reason, setReason] = useState<string>()

  function signIn(next: Session): void {
    saveSession(next)
    setLastProjectId(next.projectId)
    setSession(next)
  }
  function signOut(why?: string): void {
    saveSession(undefined)
    setReason(why)
    setSession(undefined)
  }

  if (!session) return <SignIn projectId={lastProjectId} reason={reason} onSignIn={signIn} />
  return <SignedIn session={session} onSignOut={signOut} />
}

function SignedIn({ session, onSignOut }: { session: Session; onSignOut(reason?: string): void }) {
  const connection = useMemo(createConnection, [])
  const api = useMemo(
    () =>
      createApi(session, {
        onResponse: connection.restored,
        onError({ kind }) {
          if (kind === 'offline') connection.lost()
          // a person types another key: nothing is tried again with this one
          if (kind === 'unauthorized') onSignOut(explainRefusedKey('read'))
        },
      }),
    [session],
  )
  return (
    <ConnectionContext.Provider value={connection}>
      <ApiContext.Provider value={api}>
        <Page projectId={session.projectId} onSignOut={() => onSignOut()} />
      </ApiContext.Provider>
    </ConnectionContext.Provider>
  )
}

function Page({ projectId, onSignOut }: { projectId: string; onSignOut(): void }) {
  const address = useAddress()
  const name = address.path[0] ?? 'now'
  const view = Object.hasOwn(views, name) ? views[name] : undefined
  const title = view?.title ?? 'Not found'
  const heading = useRef<HTMLHeadingElement>(null)
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${title} – ${projectId} – Ingest`
    // a change of view is read out and continues at its top; the first view leaves the focus where it is
    if (!isFirst.current) heading.current?.focus()
    isFirst.current = false
  }, [title, projectId])
  return (
    <div class="page">
      <header>
        <button type="button" class="skip" onClick={() => document.getElementById('content')?.focus()}>
          Skip to content
        </button>
        <strong class="brand">Ingest</strong>
        <span class="project" title="Project">
          <Value text={projectId} />
        </span>
        <button type="button" onClick={onSignOut}>
          Sign out
        </button>
      </header>
      <Navigation current={name} />
      <main id="content" tabIndex={-1}>
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <ConnectionBanner />
        {view ? (
          <ViewBoundary key={name}>
            <view.View address={address} />
          </ViewBoundary>
        ) : (
          <p>There is no such view. Choose one above.</p>
        )}
      </main>
    </div>
  )
}

/** A response that a view cannot show, such as that of another version, leaves the rest of the page usable. */
function ViewBoundary({ children }: { children: ComponentChildren }) {
  const [error] = useErrorBoundary((error) => console.error(error))
  if (error === undefined) return <>{children}</>
  return <Notice kind="failed">This view failed: choose another one, or reload the page.</Notice>
}

function Navigation({ current }: { current: string }) {
  return (
    <nav aria-label="Views">
      <ul>
        {Object.entries(views).map(([name, { title }]) => (
          <li key={name}>
            <a href={formatAddress([name])} aria-current={name === current ? 'page' : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

function ConnectionBanner() {
  const connection = useConnection()
  if (connection.lostAt === undefined) return null
  return (
    <p class="banner" role="alert">
      The server has not responded since <Time at={connection.lostAt} />. Trying again, with pauses of up to 30 s.{' '}
      <button type="button" onClick={connection.retryNow}>
        Try now
      </button>
    </p>
  )
}

function useAddress(): Address {
  const [fragment, setFragment] = useState(location.hash)
  useEffect(() => {
    const update = () => setFragment(location.hash)
    addEventListener('hashchange', update)
    // it may have changed before there was a listener
    update()
    return () => removeEventListener('hashchange', update)
  }, [])
  return useMemo(() => parseAddress(fragment), [fragment])
}
