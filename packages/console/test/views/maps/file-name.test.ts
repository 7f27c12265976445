import t from 'tap'
import { fileNameOf, isJsonType } from '../../../page/views/maps/file-name.ts'

const nameOf = (contentType: string, buildId = '2026.11.20', placeId = '1') =>
  fileNameOf({ buildId, placeId, contentType })

t.test('a file is named by build, place and content type', async (t) => {
  t.equal(nameOf('application/json; charset=utf-8'), '2026.11.20-1.json')
  t.equal(nameOf('application/geo+json'), '2026.11.20-1.json')
  t.equal(nameOf('Text/Plain'), '2026.11.20-1.txt')
  t.equal(nameOf('model/gltf+json'), '2026.11.20-1.gltf')
  t.equal(nameOf('application/octet-stream'), '2026.11.20-1.bin')
  t.equal(nameOf('__proto__'), '2026.11.20-1.bin')
})

t.test('what a file system refuses is left out', async (t) => {
  t.equal(nameOf('text/plain', '../a/b', 'c:\u0000 d\u202e"'), '__a_b-c___d__.txt')
  t.equal(nameOf('text/plain', '🎮'.repeat(100)), `${'🎮'.repeat(60)}.txt`, 'at most 255 bytes')
})

t.test('JSON is known by its content type', async (t) => {
  t.ok(['application/json', 'text/json', 'application/vnd.game+json;v=1'].every(isJsonType))
  t.notOk(['application/jsonl', 'text/plain', 'json', ''].some(isJsonType))
})
