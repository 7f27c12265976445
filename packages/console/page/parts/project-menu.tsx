import { type Address, formatAddress } from '../address.ts'
import './project-menu.css'
import { signInAddress } from './sign-in.tsx'
import { Value } from './value.tsx'

interface ProjectMenuProps {
  /** Projects that this tab is signed in to. */
  projectIds: readonly string[]
  address: Address
  /** Signs out of a project, or of all if it is undefined. */
  onSignOut(projectId?: string): void
}

/** Shows the project, with a menu to switch to another one, to sign in to a further one, and to sign out. */
export function ProjectMenu({ projectIds, address, onSignOut }: ProjectMenuProps) {
  const { projectId: current, path } = address
  return (
    <>
      <button type="button" class="project" popoverTarget="projects" title="Project">
        <span>
          <Value text={current ?? ''} />
        </span>{' '}
        <span aria-hidden="true">▾</span>
      </button>
      <div id="projects" class="project-menu" popover="auto">
        <ul aria-label="Projects of this tab">
          {projectIds.map((projectId) => (
            <li key={projectId}>
              <a
                href={formatAddress(path.slice(0, 1), {}, projectId)}
                aria-current={projectId === current ? 'true' : undefined}
                onClick={() => document.getElementById('projects')?.hidePopover()}
              >
                <Value text={projectId} />
              </a>
              <button type="button" onClick={() => onSignOut(projectId)}>
                Sign out <span class="visually-hidden">of {projectId}</span>
              </button>
            </li>
          ))}
        </ul>
        <a href={signInAddress}>Sign in to another project</a>
        {projectIds.length > 1 && (
          <button type="button" onClick={() => onSignOut()}>
            Sign out of all
          </button>
        )}
      </div>
    </>
  )
}
