import t from 'tap'
import { Type } from 'typebox'
import { schemaFault } from '../../src/events/schema-fault.ts'

t.test('a schema that says what it means has no fault', async (t) => {
  for (const schema of [
    {},
    Type.Object({ weapon: Type.String(), at: Type.Optional(Type.String({ format: 'date-time' })) }),
    Type.Union([Type.Literal('a'), Type.Null(), Type.Integer()]),
    { type: ['string', 'null'], enum: ['x'], const: { type: 'anything' }, examples: [{ $ref: 'no' }] },
    { properties: { child: { $ref: '#' }, other: { $ref: '#/$defs/a~1b' } }, $defs: { 'a/b': {} } },
    { $ref: 'point', $defs: { point: { $id: 'point' } } },
    { $ref: '#here', $defs: { point: { $anchor: 'here' } } },
  ]) {
    t.equal(schemaFault(schema), undefined, JSON.stringify(schema))
  }
})

t.test('a typo that would let everything or nothing pass is found, wherever it is', async (t) => {
  t.match(schemaFault({ type: 'strnig' }), 'unknown type "strnig" at /')
  t.match(schemaFault({ properties: { a: { items: { type: ['string', 'nul'] } } } }), '"nul" at /properties/a/items')
  t.match(schemaFault({ anyOf: [{}, { format: 'emial' }] }), 'unknown format "emial" at /anyOf/1')
  t.match(schemaFault({ properties: { a: { $ref: '#/nope' } } }), '$ref at /properties/a that leads nowhere')
  t.match(schemaFault({ $ref: 'nobody' }), 'leads nowhere')
  for (const schema of [undefined, null, 'x', 7, true]) t.match(schemaFault(schema), 'no object')
})
