import { splitHidden } from '../../visible-text.ts'

const extensions = new Map(
  Object.entries({
    'text/plain': 'txt',
    'text/csv': 'csv',
    'text/xml': 'xml',
    'application/xml': 'xml',
    'application/zip': 'zip',
    'application/gzip': 'gz',
    'image/png': 'png',
    'image/jpeg': 'jpg',
    'image/webp': 'webp',
    'image/svg+xml': 'svg',
    'model/gltf-binary': 'glb',
    'model/gltf+json': 'gltf',
  }),
)

/** Whether a content type is JSON, with or without parameters: `application/json`, `application/geo+json`. */
export function isJsonType(contentType: string): boolean {
  return /^(application|text)\/([\w.-]+\+)?json$/.test(mediaType(contentType))
}

/** `2026.11.20-920587237.json`. Characters that file systems do not allow become `_`. */
export function fileNameOf({ buildId, placeId, contentType }: Record<'buildId' | 'placeId' | 'contentType', string>) {
  const extension = extensions.get(mediaType(contentType)) ?? (isJsonType(contentType) ? 'json' : 'bin')
  const visible = splitHidden(`${buildId}-${placeId}`).map(({ text, isEscape }) => (isEscape ? '_' : text))
  const name = visible
    .join('')
    .replace(/[\p{C}\s<>:"/\\|?*]/gu, '_')
    .replace(/^\.+/, '_')
  // file systems limit names to 255 bytes
  return `${[...name].slice(0, 60).join('')}.${extension}`
}

function mediaType(contentType: string): string {
  return (contentType.split(';')[0] ?? '').trim().toLowerCase()
}
