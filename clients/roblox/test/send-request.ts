import { request as send } from 'node:http'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'

export interface PlatformRequest {
  url: string
  method: string
  headers: Record<string, string>
  body: string
  isCompressed: boolean
}

/** What `RequestAsync` returns, or what it throws. */
export type PlatformAnswer =
  | {
      answer: {
        Success: boolean
        StatusCode: number
        StatusMessage: string
        Headers: Record<string, string>
        Body: string
      }
    }
  | { problem: string }

/** Sends a request as the platform's HTTP service does. */
export async function sendRequest({
  url,
  method,
  headers,
  body,
  isCompressed,
}: PlatformRequest): Promise<PlatformAnswer> {
  const bytes = isCompressed ? gzipSync(body) : Buffer.from(body)
  const coding = isCompressed ? { 'Content-Encoding': 'gzip' } : {}
  const length = { 'Content-Length': bytes.length }
  try {
    const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
      send(url, { method, headers: { ...headers, ...coding, ...length }, agent: false }, resolve)
        .on('error', reject)
        .end(bytes)
    })
    const status = response.statusCode ?? 0
    return {
      answer: {
        Success: status >= 200 && status < 300,
        StatusCode: status,
        StatusMessage: response.statusMessage ?? '',
        // with the names as the server has written them
        Headers: Object.fromEntries(pairsOf(response.rawHeaders)),
        Body: await text(response),
      },
    }
  } catch (error) {
    return { problem: `HttpError: ${(error as NodeJS.ErrnoException).code}` }
  }
}

function* pairsOf(list: readonly string[]): Generator<[string, string]> {
  for (let i = 0; i < list.length; i += 2) yield [list[i] as string, list[i + 1] as string]
}
