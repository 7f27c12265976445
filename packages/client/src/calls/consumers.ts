import type { Consumer, ConsumerRecord, PutConsumerOptions, PutConsumerResult } from '@ingest/core'
import { checkConsumerName, checkPutConsumer } from '@ingest/core/internal'
import * as wire from '@ingest/core/wire'
import type { CallOptions } from '../http/retry.ts'
import { type Api, undefinedOn } from './api.ts'

export interface ConsumerCalls {
  listConsumers(options?: CallOptions): Promise<readonly Consumer[]>
  getConsumer(name: string, options?: CallOptions): Promise<Consumer | undefined>
  putConsumer(name: string, options: PutConsumerOptions & CallOptions): Promise<PutConsumerResult>
  deleteConsumer(name: string, options?: CallOptions): Promise<ConsumerRecord>
}

export function consumerCalls(api: Api): ConsumerCalls {
  return {
    async listConsumers(options) {
      const path = '/v1/consumers'
      return (await api.json<{ consumers: readonly Consumer[] }>(wire.ConsumerList, { path }, options)).consumers
    },

    getConsumer: async (name, options) =>
      undefinedOn('consumer-not-found', api.json<Consumer>(wire.Consumer, { path: pathOf(name) }, options)),

    async putConsumer(name, { cursor, replaces, ...options }) {
      checkPutConsumer({ cursor, replaces })
      const request = {
        method: 'PUT',
        path: pathOf(name),
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify({ cursor, replaces })),
        expect: [200, 201],
      } as const
      return api.json(wire.PutConsumerResult, request, options)
    },

    deleteConsumer: async (name, options) =>
      api.json(wire.ConsumerPosition, { method: 'DELETE', path: pathOf(name) }, options),
  }
}

function pathOf(name: string): string {
  checkConsumerName(name)
  return `/v1/consumers/${name}`
}
