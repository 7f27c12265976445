import type { ComponentChildren } from 'preact'
import { useEffect, useErrorBoundary, useMemo, useRef, useState } from 'preact/hooks'
import { type Address, formatAddress } from './address.ts'
import { createApi } from './api/api.ts'
import { createConnection } from './api/connection.ts'
import type { Session } from './api/session.ts'
import { ApiContext, ConnectionContext, useConnection } from './api/use-api.ts'
import { Notice } from './parts/notice.tsx'
import { Time } from './parts/time.tsx'
import { Value } from './parts/value.tsx'
import { keepRange } from './range.ts'
import { browserTimeZone, isUtc, setUtc, useTimeZone } from './time-zone.ts'
import { type View, views } from './views/views.ts'
import { visibleText } from './visible-text.ts'
import { SessionWorkerContext, useWorker } from './worker/use-worker.ts'

interface SignedInProps {
  session: Session
  /** An address within the session's project. */
  address: Address
  /** Content of the header. */
  menu: ComponentChildren
  onRefused(): void
}

/** The page of one project. */
export function SignedIn({ session, address, menu, onRefused }: SignedInProps) {
  const connection = useMemo(createConnection, [])
  const api = useMemo(
    () =>
      createApi(session, {
        onResponse: connection.restored,
        onError({ kind }) {
          if (kind === 'offline') connection.lost()
          if (kind === 'unauthorized') onRefused()
        },
      }),
    [session.projectId, session.key],
  )
  return (
    <ConnectionContext.Provider value={connection}>
      <ApiContext.Provider value={api}>
        <SessionWorker>
          <Page address={address} menu={menu} />
        </SessionWorker>
      </ApiContext.Provider>
    </ConnectionContext.Provider>
  )
}

/** The worker of the session. It ends with the session, which frees its memory. */
function SessionWorker({ children }: { children: ComponentChildren }) {
  return <SessionWorkerContext.Provider value={useWorker()}>{children}</SessionWorkerContext.Provider>
}

function Page({ address, menu }: Pick<SignedInProps, 'address' | 'menu'>) {
  // rerender for times that views format themselves
  useTimeZone()
  const name = address.path[0] ?? 'now'
  const view = Object.hasOwn(views, name) ? views[name] : undefined
  const title = view?.title ?? 'Not found'
  const heading = useRef<HTMLHeadingElement>(null)
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = titleOf(address, title)
  }, [address, title])
  useEffect(() => {
    // announce a change of view and start at its top; the first view leaves the focus alone
    if (!isFirst.current) heading.current?.focus()
    isFirst.current = false
  }, [title])
  return (
    <div class="page">
      <header>
        <button type="button" class="skip" onClick={() => document.getElementById('content')?.focus()}>
          Skip to content
        </button>
        <strong class="brand">Ingest</strong>
        <UtcSwitch />
        {menu}
      </header>
      <Navigation current={name} query={address.query} />
      <main id="content" tabIndex={-1}>
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <ConnectionBanner />
        {view ? (
          <ViewBoundary key={name}>
            <LoadedView load={view.load} address={address} />
          </ViewBoundary>
        ) : (
          <Notice kind="empty">
            There is no view <Value text={name} />: choose one above, or <a href={formatAddress(['now'])}>go to Now</a>.
          </Notice>
        )}
      </main>
    </div>
  )
}

/** Switches all times between UTC and the browser's time zone. */
function UtcSwitch() {
  const zone = useTimeZone()
  // no choice is needed
  if (browserTimeZone() === 'UTC') return <span class="muted">UTC</span>
  return (
    <button type="button" aria-pressed={isUtc()} title={`Times are in ${zone}`} onClick={() => setUtc(!isUtc())}>
      UTC
    </button>
  )
}

/** Members of a query that name the subject of a view, narrowest first. */
const subjects = ['event', 'id', 'session', 'player', 'place', 'build']
const subjectCharsMax = 60

/** The title of the view, narrowest subject first, because tabs and the history truncate its end. */
function titleOf({ path, query, projectId }: Address, title: string): string {
  const named = [...subjects.map((name) => query.get(name)), ...path.slice(1).reverse()].filter((each) => each !== null)
  const subject = named.map((each) => visibleText(each.slice(0, subjectCharsMax))).join(' · ')
  return [subject, title, projectId, 'Ingest'].filter(Boolean).join(' – ')
}

const loadedViews = new Map<() => Promise<View>, View>()

function LoadedView({ load, address }: { load: () => Promise<View>; address: Address }) {
  const [View, setView] = useState(() => loadedViews.get(load))
  const [isFailed, setFailed] = useState(false)
  const { lostAt } = useConnection()
  useEffect(() => {
    let isCurrent = true
    async function open(): Promise<void> {
      try {
        const View = await load()
        loadedViews.set(load, View)
        if (isCurrent) setView(() => View)
      } catch {
        if (isCurrent) setFailed(true)
      }
    }
    if (!View) void open()
    return () => {
      isCurrent = false
    }
  }, [load])
  if (View) return <View address={address} />
  if (!isFailed) return <Notice kind="loading">Loading…</Notice>
  return (
    <Notice kind={lostAt === undefined ? 'failed' : 'empty'}>
      This view could not be loaded: the server does not respond, or its version is not that of this page.{' '}
      <button type="button" onClick={() => location.reload()}>
        Reload the page
      </button>
    </Notice>
  )
}

/** Keeps the rest of the page usable if a view cannot show a response, such as that of another version. */
function ViewBoundary({ children }: { children: ComponentChildren }) {
  const [error] = useErrorBoundary((error) => console.error(error))
  if (error === undefined) return <>{children}</>
  return <Notice kind="failed">This view failed: choose another one, or reload the page.</Notice>
}

/** Links to the views; they keep the range of the address. */
function Navigation({ current, query }: { current: string; query: URLSearchParams }) {
  const list = useRef<HTMLUListElement>(null)
  useEffect(() => {
    const link = list.current?.querySelector<HTMLElement>('[aria-current]')
    // on a phone, the list scrolls; after scrollIntoView, Tab would continue at the link
    if (list.current && link)
      list.current.scrollLeft = link.offsetLeft - (list.current.clientWidth - link.offsetWidth) / 2
  }, [current])
  return (
    <nav aria-label="Views">
      <ul ref={list}>
        {Object.entries(views).map(([name, { title }]) => (
          <li key={name}>
            <a href={formatAddress([name], keepRange(query))} aria-current={name === current ? 'page' : undefined}>
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
      The server has not responded since <Time at={connection.lostAt} />. Trying again every few seconds.{' '}
      <button type="button" onClick={connection.retryNow}>
        Try now
      </button>
    </p>
  )
}
