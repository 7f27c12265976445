import type { ComponentType } from 'preact'
import type { Address } from '../address.ts'
import { FindView } from './find.tsx'
import { LiveView } from './live.tsx'
import { MapsView } from './maps.tsx'
import { NowView } from './now.tsx'
import { RejectedView } from './rejected.tsx'
import { TryView } from './try.tsx'
import { WhereView } from './where.tsx'

/** The views by the first segment of their address, in the order of the navigation. */
export const views: Readonly<Record<string, { title: string; View: ComponentType<{ address: Address }> }>> = {
  now: { title: 'Now', View: NowView },
  live: { title: 'Live events', View: LiveView },
  rejected: { title: 'Rejected', View: RejectedView },
  maps: { title: 'Builds and maps', View: MapsView },
  where: { title: 'Where it happens', View: WhereView },
  find: { title: 'Find', View: FindView },
  try: { title: 'Try it', View: TryView },
}
