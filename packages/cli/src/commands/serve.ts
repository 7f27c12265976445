import { Command } from 'commander'
import type { Io } from '../io.ts'
import { jsonOption } from '../options.ts'
import { runServer } from '../serve/run-server.ts'
import { serveOptions, settingsReader, toServeSettings } from '../serve/serve-options.ts'
import { passwordWarning } from '../settings.ts'

/** `ingest serve`. */
export function serveCommand(io: Io): Command {
  const command = new Command('serve').description('serve the HTTP API on a store, creating a missing one')
  for (const option of [...serveOptions(), jsonOption()]) command.addOption(option)
  return command.addHelpText('after', serveHelp).action(() => {
    const reload = settingsReader(command, io.env)
    return runServer(io, toServeSettings(command), { reload, warning: passwordWarning(command) })
  })
}

const serveHelp = `
Prints "listening on http://…" to stdout when it accepts requests, an object with --json, and logs to stderr.
SIGTERM and SIGINT start a graceful shutdown: requests in flight are completed, new ones get 503, the exit code is 0.
SIGHUP reloads the TLS certificate and the log level. A setting comes from its option, else from its variable, else from
its key in the file of settings, such as "logLevel": \`ingest config\` prints what is in force and where it comes from.
Bursts may reach 2 times the requests, 5 times the events, 16 times the bytes of maps and 4 times the bytes read per
second. Bodies of batches are limited to 512 bytes per event of the limit. Sizes may be written as 512K, 32M or 1G.
Any number of servers may have a store open: a directory on one machine, a database on several.

Examples:
  ingest serve --data data/games
  ingest serve --data data/games --host 0.0.0.0 --port 8787 --rate-limit 200,40000
  ingest serve --store postgres://ingest@localhost/games
`
