import { Command } from 'commander'
import type { Io } from '../io.ts'
import { jsonOption } from '../options.ts'
import { runServer } from '../serve/run-server.ts'
import { parseServeSettings, serveOptions } from '../serve/serve-options.ts'

export function serveCommand(io: Io): Command {
  const command = new Command('serve').description('serve the HTTP API on a store, creating a missing one')
  for (const option of [...serveOptions(), jsonOption()]) command.addOption(option)
  return command.addHelpText('after', serveHelp).action(() => runServer(io, parseServeSettings(command)))
}

const serveHelp = `
Prints "listening on http://…" to stdout when it accepts requests, an object with --json, and logs to stderr: text on a
terminal, otherwise JSON lines.
SIGTERM and SIGINT start a graceful shutdown: requests in flight are completed, new ones get 503, the exit code is 0.
SIGHUP reloads the TLS certificate and the event schemas.
Bursts may reach 2 times the requests, 5 times the events, 16 times the uploaded bytes and 4 times the read bytes per
second. Bodies of batches are limited to 512 bytes per event of the limit. Sizes may be written as 512K, 32M or 1G.
Any number of servers may have a store open: a directory on one machine, a database on several. pool_max_conns in the URL
of a database limits its connections, 20 by default.

Examples:
  ingest serve --store data/games
  ingest serve --store data/games --listen 0.0.0.0:8787 --rate-limit requests=200,events=40000
  ingest serve --store postgres://ingest@localhost/games?pool_max_conns=50
`
