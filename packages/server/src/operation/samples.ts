export const sampleDigest = 'sha256:a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447'
export const samplePublished = {
  placeId: '920587237',
  buildId: '2026.11.20',
  outcome: 'created',
  state: 'complete',
  digest: 'sha256:817eb228afb1bb6c3928dc9569fdc87b75d65bf12b2962a21305d915c19ff24f',
  size: 31,
  contentType: 'application/json',
  chunks: 1,
  frozen: true,
  missing: [],
  publishedAt: '2026-11-21T13:02:53.011Z',
}
const { outcome: _, ...sampleMap } = samplePublished
export const sampleStatus = { ...sampleMap, frozenAt: '2026-11-21T13:01:12.400Z', pending: null }
