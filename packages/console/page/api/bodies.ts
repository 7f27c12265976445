import type * as wire from '@ingest/core/wire'
import type { Body } from '@ingest/core/wire'

// The JSON bodies of the API that the page reads.

export type Activity = Body<typeof wire.Activity>
export type BuildPage = Body<typeof wire.BuildPage>
export type Build = BuildPage['builds'][number]
export type ConsumerList = Body<typeof wire.ConsumerList>
export type Issue = Body<typeof wire.Issue>
export type MapPage = Body<typeof wire.MapPage>
export type MapStatus = Body<typeof wire.MapStatus>
export type MapContents = NonNullable<MapStatus['pending']>
export type Rejections = Body<typeof wire.Rejections>
export type RejectionGroup = Rejections['groups'][number]
export type Stats = Body<typeof wire.Stats>
