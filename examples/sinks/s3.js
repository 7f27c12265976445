// Uploads the events of a project as files of gzipped NDJSON, each event in exactly one object:
// node s3.js DIRECTORY https://s3.eu-central-1.amazonaws.com/BUCKET/PREFIX
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@ingest/client'
import { exportFiles, ndjson } from '@ingest/export'
import { AwsClient } from 'aws4fetch'

const { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } = process.env
const { AWS_ACCESS_KEY_ID: accessKeyId = '', AWS_SECRET_ACCESS_KEY: secretAccessKey = '' } = process.env
const ingest = createClient({ url, projectId, key })
const s3 = new AwsClient({ accessKeyId, secretAccessKey, service: 's3' })
const [, , directory = '', target] = process.argv

// files that an earlier run completed and did not upload are here too
const { cursor } = await exportFiles(ingest, { directory, format: ndjson({ gzip: true }) })
const files = (await readdir(directory)).filter((name) => !name.startsWith('.')).sort()
for (const name of files) {
  const body = await readFile(join(directory, name))
  const { ok, status } = await s3.fetch(`${target}/${name}`, { method: 'PUT', body })
  if (!ok) throw new Error(`${name} was refused with ${status}`)
  await rm(join(directory, name))
}
await ingest.close()
console.log(`${files.length} files, up to ${cursor}`)
