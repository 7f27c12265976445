/** Who the page asks as: a project and a key with the scope `read`. */
export interface Session {
  projectId: string
  key: string
}

/** The characters that a header can carry. */
export const keyPattern = '[!-~]+'
export const keyHint = 'A key has no spaces and looks like ik_…'

/** The server does not say which of these it is. */
export function explainRefusedKey(scope: string): string {
  return `The key was refused: it is wrong, expired or revoked, of another project, or lacks the scope ${scope}.`
}

const name = 'ingest-session'
const writeKeyName = 'ingest-write-key'

/** The session of this tab, which survives a reload and ends with the tab. */
export function loadSession(): Session | undefined {
  try {
    const { projectId, key } = JSON.parse(sessionStorage.getItem(name) ?? '{}') as Partial<Session>
    return projectId && key ? { projectId, key } : undefined
  } catch {
    return undefined
  }
}

/** Undefined signs out, which forgets the key of `saveWriteKey` as well. */
export function saveSession(session: Session | undefined): void {
  store(name, session && JSON.stringify(session))
  if (!session) store(writeKeyName, undefined)
}

/** The key with the scope `events:write` that was typed into this tab, for the project of the session. */
export function loadWriteKey(): string {
  try {
    return sessionStorage.getItem(writeKeyName) ?? ''
  } catch {
    return ''
  }
}

export function saveWriteKey(key: string): void {
  store(writeKeyName, key || undefined)
}

function store(name: string, value: string | undefined): void {
  try {
    if (value !== undefined) sessionStorage.setItem(name, value)
    else sessionStorage.removeItem(name)
  } catch {
    // without storage, the session ends with a reload
  }
}
