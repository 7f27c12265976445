import t from 'tap'
import { entityTag, listsTag } from '../../src/routes/get-map-content.ts'

const tag = entityTag('sha256:ab')

t.test('a tag is the digest in quotes', async (t) => {
  t.equal(tag, '"sha256:ab"')
})

t.test('a list has the tag, or is a star', async (t) => {
  for (const list of [tag, ` ${tag} `, `"a", ${tag}`, `"a",${tag},"b"`, `W/"x" , ${tag}`, '*', ' * ']) {
    t.ok(listsTag(list, tag, 'weak'), list)
    t.ok(listsTag(list, tag, 'strong'), list)
  }
  for (const list of ['', 'sha256:ab', '"sha256:a"', '"sha256:ab', '"a", "b"', '"sha256:AB"']) {
    t.notOk(listsTag(list, tag, 'weak'), list)
    t.notOk(listsTag(list, tag, 'strong'), list)
  }
})

t.test('a weak tag is the same for If-None-Match only', async (t) => {
  t.ok(listsTag(`W/${tag}`, tag, 'weak'))
  t.notOk(listsTag(`W/${tag}`, tag, 'strong'))
})
