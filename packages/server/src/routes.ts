import { createOpenapiRoute } from './openapi/get-openapi.ts'
import type { OpenRoute, ProjectRoute } from './route.ts'
import { deleteConsumer, getConsumer, getConsumers, putConsumer } from './routes/consumers.ts'
import { getActivity, getRejected } from './routes/get-activity.ts'
import { getEvents } from './routes/get-events.ts'
import { getChunk, getMapContent } from './routes/get-map-content.ts'
import { getMaps } from './routes/get-maps.ts'
import { getBuilds, getStats } from './routes/get-stats.ts'
import { getLivez, getReadyz } from './routes/health.ts'
import { postBatch } from './routes/post-batch.ts'
import { putChunks } from './routes/put-chunks.ts'
import { putMap } from './routes/put-map.ts'

// To add a route, write its module and add it here: the router, the OpenAPI document and docs/http-api.md follow.

/** All routes, in the order of the OpenAPI document. */
export const routes: readonly (ProjectRoute | OpenRoute)[] = [
  postBatch,
  getEvents,
  getConsumers,
  getConsumer,
  putConsumer,
  deleteConsumer,
  getMaps,
  putMap,
  getChunk,
  putChunks,
  getMapContent,
  getStats,
  getBuilds,
  getActivity,
  getRejected,
  getLivez,
  getReadyz,
  createOpenapiRoute(() => routes),
]
