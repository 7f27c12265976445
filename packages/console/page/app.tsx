import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { type Address, addProject, formatAddress, parseAddress, replaceAddress } from './address.ts'
import { loadSessions, refusedKey, type Session, saveSessions } from './api/session.ts'
import { ProjectMenu } from './parts/project-menu.tsx'
import { isSignIn, SignIn } from './parts/sign-in.tsx'
import { SignedIn } from './signed-in.tsx'

/** The whole page: the view of the address, or the sign-in to its project. */
export function App() {
  const [sessions, setSessions] = useState<readonly Session[]>(loadSessions)
  const [refused, setRefused] = useState<string>()
  const address = useAddress(sessions[0]?.projectId)
  const session = sessions.find(({ projectId }) => projectId === address.projectId)
  const projectIds = sessions.map(({ projectId }) => projectId)
  useEffect(() => {
    if (session && session !== sessions[0]) change([session, ...without(sessions, session.projectId)])
  }, [session])

  function change(next: readonly Session[]): void {
    saveSessions(next)
    setSessions(next)
  }
  function signIn(next: Session): void {
    setRefused(undefined)
    change([next, ...without(sessions, next.projectId)])
    // an address of another project is meaningless in this one; `useAddress` adds this project to an address without
    // one
    const isOther = address.projectId !== undefined && address.projectId !== next.projectId
    if (isOther || isSignIn(location.hash)) replaceAddress(formatAddress([], {}, next.projectId))
  }
  function signOut(projectId?: string): void {
    const rest = projectId === undefined ? [] : without(sessions, projectId)
    change(rest)
    const [next] = rest
    if (next && projectId === session?.projectId) replaceAddress(formatAddress([], {}, next.projectId))
  }
  function refuse(projectId: string): void {
    setRefused(projectId)
    // the user must enter another key: nothing is retried with this one
    change(without(sessions, projectId))
  }

  if (session) {
    return (
      <SignedIn
        key={session.projectId}
        session={session}
        address={address}
        menu={<ProjectMenu {...{ projectIds, address }} onSignOut={signOut} />}
        onRefused={() => refuse(session.projectId)}
      />
    )
  }
  return (
    <SignIn
      key={address.projectId ?? ''}
      projectId={address.projectId}
      others={projectIds}
      reason={refused !== undefined && refused === address.projectId ? refusedKey : undefined}
      onSignIn={signIn}
    />
  )
}

function without(sessions: readonly Session[], projectId: string): Session[] {
  return sessions.filter((each) => each.projectId !== projectId)
}

/** The address of the page. If it names no project, it gets the current one, if there is one. */
function useAddress(projectId: string | undefined): Address {
  const latest = useRef(projectId)
  latest.current = projectId
  const [fragment, setFragment] = useState(() => readFragment(projectId))
  useEffect(() => {
    const update = () => setFragment(readFragment(latest.current))
    addEventListener('hashchange', update)
    // the address may have changed before the listener was added
    update()
    return () => removeEventListener('hashchange', update)
  }, [projectId])
  return useMemo(() => parseAddress(fragment), [fragment])
}

function readFragment(projectId: string | undefined): string {
  const { hash } = location
  if (projectId === undefined || parseAddress(hash).projectId !== undefined || isSignIn(hash)) return hash
  history.replaceState(history.state, '', addProject(hash, projectId))
  return location.hash
}
