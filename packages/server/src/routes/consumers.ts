import { IngestError, type PutConsumerOptions } from '@ingest/core'
import { Consumer, ConsumerList, ConsumerPosition, PutConsumer, PutConsumerResult, toWire } from '@ingest/core/wire'
import { readMembers } from '../http/members.ts'
import { parseQuery } from '../http/query.ts'
import { jsonResponse } from '../http/response.ts'
import { json, type Parameter, text } from './operation.ts'
import type { ProjectRoute } from './route.ts'

/** The charge for counting the lag of a consumer, in bytes. */
export const lagReadBytes = 131_072

const nameParameter: Parameter = {
  name: 'name',
  in: 'path',
  required: true,
  description: '1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit',
  schema: text,
}

const samplePosition = {
  name: 'warehouse',
  cursor: 'ATqRwF7ST3sWKpdRbAAAAAAAAQFnurqr',
  updatedAt: '2026-11-21T16:05:07.127Z',
}
const sample = { ...samplePosition, lag: { events: 120, exact: true, seconds: 2.5 } }

const limits = { concurrency: 'downloads', budget: 'reads' } as const

export const getConsumers: ProjectRoute = {
  method: 'GET',
  path: '/v1/consumers',
  scope: 'read',
  ...limits,
  operation: {
    operationId: 'listConsumers',
    tag: 'consumers',
    summary: 'list consumers',
    description: 'By name. See [Consumers](http-api.md#consumers).',
    responses: { 200: { description: 'The consumers.', content: json(ConsumerList, { consumers: [sample] }) } },
  },
  async handle({ request, ingest, limiter }) {
    parseQuery(request.query, [])
    const consumers = await ingest.listConsumers()
    await limiter.charge(ingest.projectId, { readBytes: consumers.length * lagReadBytes })
    return jsonResponse(200, toWire(ConsumerList, { consumers }))
  },
}

export const getConsumer: ProjectRoute = {
  method: 'GET',
  path: '/v1/consumers/{name}',
  scope: 'read',
  ...limits,
  operation: {
    operationId: 'getConsumer',
    tag: 'consumers',
    summary: 'read a consumer',
    description: 'Read events `after` its cursor. See [Consumers](http-api.md#consumers).',
    parameters: [nameParameter],
    responses: { 200: { description: 'The consumer.', content: json(Consumer, sample) } },
    codes: ['consumer-not-found'],
  },
  async handle({ request, ingest, limiter, params: [name = ''] }) {
    parseQuery(request.query, [])
    const consumer = await ingest.getConsumer(name)
    if (!consumer) throw new IngestError('consumer-not-found', `There is no consumer ${name}.`)
    await limiter.charge(ingest.projectId, { readBytes: lagReadBytes })
    return jsonResponse(200, toWire(Consumer, consumer))
  },
}

export const putConsumer: ProjectRoute = {
  method: 'PUT',
  path: '/v1/consumers/{name}',
  scope: 'consume',
  ...limits,
  operation: {
    operationId: 'putConsumer',
    tag: 'consumers',
    summary: 'move a consumer',
    description: 'Compare-and-set; idempotent. See [Consumers](http-api.md#consumers).',
    parameters: [nameParameter],
    body: json(PutConsumer, { cursor: samplePosition.cursor, replaces: null }),
    responses: {
      200: {
        description: '`updated`, or `unchanged`: it had this cursor already.',
        content: json(PutConsumerResult, { ...samplePosition, outcome: 'updated' }),
      },
      201: {
        description: '`created`: there was no such consumer.',
        content: json(PutConsumerResult, { ...samplePosition, outcome: 'created' }),
      },
    },
    codes: ['invalid-cursor', 'consumer-conflict', 'consumer-quota-exceeded', 'body-too-large'],
  },
  async handle({ request, ingest, wait, params: [name = ''] }) {
    parseQuery(request.query, [])
    const members = await readMembers(request, Object.keys(PutConsumer.properties))
    // the Ingest checks the members
    const result = await wait(ingest.putConsumer(name, members as unknown as PutConsumerOptions))
    return jsonResponse(result.outcome === 'created' ? 201 : 200, toWire(PutConsumerResult, result))
  },
}

export const deleteConsumer: ProjectRoute = {
  method: 'DELETE',
  path: '/v1/consumers/{name}',
  scope: 'consume',
  ...limits,
  operation: {
    operationId: 'deleteConsumer',
    tag: 'consumers',
    summary: 'delete a consumer',
    description: 'Its events are not affected.',
    parameters: [nameParameter],
    responses: { 200: { description: 'Its last cursor.', content: json(ConsumerPosition, samplePosition) } },
    codes: ['consumer-not-found'],
  },
  async handle({ request, ingest, params: [name = ''] }) {
    parseQuery(request.query, [])
    return jsonResponse(200, toWire(ConsumerPosition, await ingest.deleteConsumer(name)))
  },
}
