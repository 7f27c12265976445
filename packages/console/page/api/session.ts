/** The credentials of the page: a project and a key with the scope `read`. */
export interface Session {
  projectId: string
  key: string
}

/** The characters that are valid in a header. */
export const keyPattern = '[!-~]+'
export const keyHint = 'A key has no spaces and looks like ik_…'

/** Lists the possible reasons, because the server does not say which one applies. */
export function explainRefusedKey(scope: string): string {
  return `The key was refused: it is wrong, expired or revoked, of another project, or lacks the scope ${scope}.`
}

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

/** Saves the sessions, and forgets the keys saved by `saveWriteKey` for other projects. */
export function saveSessions(sessions: readonly Session[]): void {
  for (const { projectId } of loadSessions()) {
    if (!sessions.some((each) => each.projectId === projectId)) saveWriteKey(projectId, '')
  }
  store(name, sessions.length > 0 ? JSON.stringify(sessions) : undefined)
}

const writeKeyName = (projectId: string) => `ingest-write-key ${projectId}`

/** The key with the scope `events:write` that was entered in this tab for a project; empty without such a key. */
export function loadWriteKey(projectId: string): string {
  try {
    return sessionStorage.getItem(writeKeyName(projectId)) ?? ''
  } catch {
    return ''
  }
}

export function saveWriteKey(projectId: string, key: string): void {
  store(writeKeyName(projectId), key || undefined)
}

function store(name: string, value: string | undefined): void {
  try {
    if (value !== undefined) sessionStorage.setItem(name, value)
    else sessionStorage.removeItem(name)
  } catch {
    // without storage, the session ends with a reload
  }
}
