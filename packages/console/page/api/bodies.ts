// The JSON bodies of the API that the page reads. Times are RFC 3339.

export interface Stats {
  events: number
  bytes: number
  lastAt: string | null
  eventsPerSecond: number
}

export interface Activity {
  since: string
  servers: number
  minutes: { at: string; accepted: number; duplicates: number; rejected: number }[]
}

export interface Issue {
  code: string
  path: string
  message: string
}

export interface RecentRejection {
  receivedAt: string
  index: number
  eventId: string | null
  issues: Issue[]
  /** The exact text of the event, if the server keeps it. */
  event?: string
}

export interface RecentRejections {
  since: string
  total: number
  groups: (Issue & { count: number; lastAt: string })[]
  rejected: RecentRejection[]
}

export interface Build {
  buildId: string
  frozenAt: string | null
  maps: number
}

export interface BuildPage {
  builds: Build[]
  next: string | null
}

export interface MapContents {
  digest: string
  size: number
  contentType: string
  chunks: number
  missing: string[]
}

export interface MapStatus extends MapContents {
  placeId: string
  buildId: string
  state: 'complete' | 'incomplete'
  frozen: boolean
  frozenAt: string | null
  publishedAt: string | null
  pending: MapContents | null
}

export interface MapPage {
  maps: MapStatus[]
  next: string | null
}

export interface BatchResult {
  accepted: number
  duplicates: number
  rejected: { index: number; eventId: string | null; issues: Issue[] }[]
}
