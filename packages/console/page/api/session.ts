/** The credentials of the page: a project and a key with the scope `read`. */
export interface Session {
  projectId: string
  key: string
}

/** The characters that are valid in a header. */
export const keyPattern = '[!-~]+'
export const keyHint = 'A key has no spaces and looks like ik_…'

/** Lists the possible reasons, because the server does not say which one applies. */
export const refusedKey =
  'The key was refused: it is wrong, expired or revoked, of another project, or lacks the scope read.'

const name = 'ingest-sessions'

/** The sessions of this tab, one per project, most recently used first. They survive a reload and end with the tab. */
export function loadSessions(): Session[] {
  try {
    const stored = JSON.parse(sessionStorage.getItem(name) ?? '[]') as Session[]
    return stored.filter(({ projectId, key }) => projectId && key)
  } catch {
    return []
  }
}

export function saveSessions(sessions: readonly Session[]): void {
  try {
    if (sessions.length > 0) sessionStorage.setItem(name, JSON.stringify(sessions))
    else sessionStorage.removeItem(name)
  } catch {
    // without storage, the session ends with a reload
  }
}
