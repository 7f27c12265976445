import type { ComponentType } from 'preact'
import type { Address } from '../address.ts'

export type View = ComponentType<{ address: Address }>

/**
 * The views by the first segment of their address, in the order of the navigation. Each is loaded when it is first
 * opened.
 */
export const views: Readonly<Record<string, { title: string; load(): Promise<View> }>> = {
  now: { title: 'Now', load: async () => (await import('./now.tsx')).NowView },
  live: { title: 'Live events', load: async () => (await import('./live.tsx')).LiveView },
  rejected: { title: 'Rejected', load: async () => (await import('./rejected.tsx')).RejectedView },
  maps: { title: 'Builds and maps', load: async () => (await import('./maps.tsx')).MapsView },
  where: { title: 'Where it happens', load: async () => (await import('./where.tsx')).WhereView },
  playback: { title: 'Playback', load: async () => (await import('./playback.tsx')).PlaybackView },
  find: { title: 'Find', load: async () => (await import('./find.tsx')).FindView },
}
