/** Who the page asks as: a project and a key with the scope `read`. */
export interface Session {
  projectId: string
  key: string
}

const name = 'ingest-session'

/** The session of this tab, which survives a reload and ends with the tab. */
export function loadSession(): Session | undefined {
  try {
    const { projectId, key } = JSON.parse(sessionStorage.getItem(name) ?? '{}') as Partial<Session>
    return projectId && key ? { projectId, key } : undefined
  } catch {
    return undefined
  }
}

/** Undefined signs out. */
export function saveSession(session: Session | undefined): void {
  try {
    if (session) sessionStorage.setItem(name, JSON.stringify(session))
    else sessionStorage.removeItem(name)
  } catch {
    // without storage, the session ends with a reload
  }
}
