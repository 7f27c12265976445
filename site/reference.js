import { rmSync } from 'node:fs'
import { Application } from 'typedoc'

// Writes the API reference of all packages as pages of the site. A warning, such as a broken link, is a failure.

const app = await Application.bootstrapWithPlugins({ options: 'typedoc.json' })
const project = await app.convert()
if (!project) throw new Error('TypeDoc cannot read the entries of the packages.')
for (const module of project.children ?? []) module.name = `@ingest/${module.name.replace('/src', '')}`
app.validate(project)
rmSync(app.options.getValue('out'), { recursive: true, force: true })
await app.generateOutputs(project)
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exitCode = 1
