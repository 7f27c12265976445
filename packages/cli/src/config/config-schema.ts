import type { ConfigOption } from './config-option.ts'

export interface DescribedOption extends ConfigOption {
  description: string
  /** As it is written in the file. */
  defaultValue: unknown
}

/** The JSON Schema of a file of settings with these options. */
export function createConfigSchema(options: Iterable<DescribedOption>): object {
  const properties = Array.from(options, ({ key, schema: { format: _, ...schema }, description, defaultValue }) => [
    key,
    { description, ...schema, ...(defaultValue !== undefined && { default: defaultValue }) },
  ])
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Settings of the ingest command',
    type: 'object',
    additionalProperties: false,
    properties: { $schema: { type: 'string' }, ...Object.fromEntries(properties) },
  }
}
