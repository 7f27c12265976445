#!/usr/bin/env node
// In syntax that older versions of Node parse, so that they can say what is wrong.
const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`ingest: Node 20.19 or newer is needed, and this is ${process.versions.node}: see https://nodejs.org`)
  process.exitCode = 2
} else {
  import('../dist/bin.js')
}
