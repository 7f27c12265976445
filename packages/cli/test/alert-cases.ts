/** Series, and whether an alert fires on them. Samples are a minute apart, in the notation of promtool. */
export interface AlertCase {
  fact: string
  series: Readonly<Record<string, string>>
  /** When the rules are evaluated: `2h5m`. */
  at: string
  /** The labels of the alert besides `severity`, and its summary; absent if it does not fire. */
  fires?: { labels: Readonly<Record<string, string>>; summary: string }
}

const day = 1440
const batches = 'ingest_batch_duration_seconds'

/** Responses to batches a minute: fast 202s, slow 202s and 503s. */
function batchSeries(fast: string, slow: string, failed: string): Record<string, string> {
  return {
    [`${batches}_bucket{job="ingest",instance="a",status="202",le="0.25"}`]: fast,
    [`${batches}_count{job="ingest",instance="a",status="202"}`]: fast,
    // as if another server had all of the slow ones
    [`${batches}_bucket{job="ingest",instance="b",status="202",le="0.25"}`]: '0x9999',
    [`${batches}_count{job="ingest",instance="b",status="202"}`]: slow,
    [`${batches}_bucket{job="ingest",instance="b",status="503",le="0.25"}`]: failed,
    [`${batches}_count{job="ingest",instance="b",status="503"}`]: failed,
  }
}

const burns = (percent: string, more = '') => ({
  labels: { job: 'ingest' },
  summary: `${percent} of the batches get no 202 within 250 ms${more}`,
})
const burnsSlowly = (percent: string) => burns(percent, ', for hours')

const ofServer = { job: 'ingest', instance: 'a' }
const ofProject = { job: 'ingest', project: 'game-1' }
const events = (outcome: string) =>
  `ingest_events_total{job="ingest",instance="a",project="game-1",outcome="${outcome}"}`
const onServer = (metric: string, labels = '') => `ingest_store_${metric}{job="ingest",instance="a"${labels}}`

export const alertCases: Readonly<Record<string, readonly AlertCase[]>> = {
  IngestDown: [
    {
      fact: 'a server is not scraped',
      series: { 'up{job="ingest",instance="a"}': '1 0x10' },
      at: '5m',
      fires: { labels: ofServer, summary: 'a does not serve /metrics' },
    },
    {
      fact: 'another job is down',
      series: { 'up{job="ingest",instance="a"}': '1x10', 'up{job="other",instance="b"}': '0x10' },
      at: '5m',
    },
  ],
  IngestStoreDown: [
    {
      fact: 'a store does not respond',
      series: { [onServer('up')]: '1 0x10', 'ingest_store_up{job="ingest",instance="b"}': '1x10' },
      at: '5m',
      fires: { labels: ofServer, summary: 'The store of a does not respond' },
    },
    { fact: 'a store did not respond to one scrape', series: { [onServer('up')]: '1 0 1x10' }, at: '5m' },
  ],
  IngestErrorBudgetFast: [
    { fact: '2 % get a 503', series: batchSeries('0+980x120', '0x120', '0+20x120'), at: '2h', fires: burns('2%') },
    { fact: '2 % are slow', series: batchSeries('0+980x120', '0+20x120', '0x120'), at: '2h', fires: burns('2%') },
    {
      fact: '0.8 % fail for 6 hours',
      series: batchSeries('0+992x420', '0+4x420', '0+4x420'),
      at: '7h',
      fires: burns('0.8%'),
    },
    { fact: '0.4 % fail for 6 hours', series: batchSeries('0+996x420', '0+2x420', '0+2x420'), at: '7h' },
    {
      fact: '10 % failed for an hour, and none for 31 minutes',
      series: batchSeries('0+900x60 54000+1000x31', '0x91', '0+100x60 6000+0x31'),
      at: '91m',
    },
    { fact: '9 batches of 90 fail', series: batchSeries('0+1x81', '0x81', '0x30 1+1x8 9x43'), at: '50m' },
    { fact: 'there are no batches', series: batchSeries('0x120', '0x120', '0x120'), at: '2h' },
  ],
  IngestErrorBudgetSlow: [
    {
      fact: '0.4 % fail for a day',
      series: batchSeries(`0+996x${day}`, '0x9999', `0+4x${day}`),
      at: '1d',
      fires: burnsSlowly('0.4%'),
    },
    {
      fact: '0.2 % fail for 3 days',
      series: batchSeries(`0+998x${3 * day}`, `0+2x${3 * day}`, '0x9999'),
      at: '3d',
      fires: burnsSlowly('0.2%'),
    },
    {
      fact: '0.05 % fail for 3 days',
      series: batchSeries(`0+1999x${3 * day}`, `0+1x${3 * day}`, '0x9999'),
      at: '3d',
    },
    {
      fact: '2 % failed for 2 hours, and none for 7 hours',
      series: batchSeries('0+980x120 117600+1000x420', '0x540', '0+20x120 2400+0x420'),
      at: '9h',
    },
  ],
  IngestServerErrors: [
    {
      fact: '10 % of the reads of a route get a 503',
      series: {
        'ingest_http_requests_total{job="ingest",instance="a",route="/v1/stats",method="GET",status="200"}': '0+90x30',
        'ingest_http_requests_total{job="ingest",instance="a",route="/v1/stats",method="GET",status="503"}': '0+10x30',
      },
      at: '25m',
      fires: {
        labels: { job: 'ingest', route: '/v1/stats' },
        summary: '10% of the requests of /v1/stats get a 5xx',
      },
    },
    {
      fact: 'batches get a 503, and reads a 429',
      series: {
        'ingest_http_requests_total{job="ingest",route="/v1/events/batch",method="POST",status="503"}': '0+90x30',
        'ingest_http_requests_total{job="ingest",route="/v1/stats",method="GET",status="429"}': '0+90x30',
      },
      at: '25m',
    },
  ],
  IngestEventsRejected: [
    {
      fact: '5 % are rejected',
      series: { [events('accepted')]: '0+90x30', [events('duplicate')]: '0+5x30', [events('rejected')]: '0+5x30' },
      at: '25m',
      fires: { labels: ofProject, summary: '5% of the events of game-1 are rejected' },
    },
    {
      fact: '0.5 % are rejected',
      series: { [events('accepted')]: '0+995x30', [events('rejected')]: '0+5x30' },
      at: '25m',
    },
    { fact: 'one event a minute is rejected', series: { [events('rejected')]: '0+1x30' }, at: '25m' },
    {
      fact: 'events were rejected once',
      series: { [events('accepted')]: '0+90x30', [events('rejected')]: '90x30' },
      at: '25m',
    },
  ],
  IngestProjectSilent: [
    ...[`${day * 10}+0x60`, '_x60'].map((today) => ({
      fact: `sent until yesterday: then ${today}`,
      series: { [events('accepted')]: `0+10x${day} ${today}` },
      at: '1d1h',
      fires: {
        labels: ofProject,
        summary: 'game-1 sends nothing, and sent 300 events in the same half hour of yesterday',
      },
    })),
    { fact: 'a new project', series: { [events('accepted')]: `_x${day} 0+10x60 600+0x60` }, at: '1d2h' },
    { fact: 'stopped two days ago', series: { [events('accepted')]: `0+10x${day} ${day * 10}+0x2880` }, at: '2d2h' },
    {
      fact: 'still sends duplicates',
      series: { [events('accepted')]: `0+10x${day} ${day * 10}+0x60`, [events('duplicate')]: '0+1x1500' },
      at: '1d1h',
    },
    { fact: 'sent little yesterday', series: { [events('accepted')]: `0+1x${day} ${day}+0x60` }, at: '1d1h' },
  ],
  IngestKeyRefused: [
    {
      fact: 'one sender asks every 5 minutes',
      series: { 'ingest_http_problems_total{job="ingest",instance="a",code="unauthorized"}': '0+0.2x90' },
      at: '80m',
      fires: { labels: { job: 'ingest' }, summary: '12 requests had invalid credentials within an hour' },
    },
    {
      fact: 'five senders were refused once',
      series: { 'ingest_http_problems_total{job="ingest",instance="a",code="unauthorized"}': '0x30 5x60' },
      at: '80m',
    },
  ],
  IngestRateLimited: [
    {
      fact: '2 requests a second are refused',
      series: { 'ingest_rate_limited_requests_total{job="ingest",project="game-1",budget="batches"}': '0+120x30' },
      at: '25m',
      fires: { labels: { ...ofProject, budget: 'batches' }, summary: 'game-1 is over its rate limit (batches)' },
    },
    {
      fact: 'one request a minute is refused',
      series: { 'ingest_rate_limited_requests_total{job="ingest",project="game-1",budget="batches"}': '0+1x30' },
      at: '25m',
    },
  ],
  IngestDuplicateConflicts: [
    {
      fact: 'an id was used twice',
      series: { 'ingest_duplicate_conflicts_total{job="ingest",project="game-1"}': '0x5 1x10' },
      at: '10m',
      fires: { labels: ofProject, summary: 'game-1 uses ids for different events' },
    },
    {
      fact: 'an id was used twice, an hour ago',
      series: { 'ingest_duplicate_conflicts_total{job="ingest",project="game-1"}': '0x5 1x60' },
      at: '1h',
    },
  ],
  IngestConsumerBehind: [
    {
      fact: 'the oldest unread event is 2 hours old',
      series: { 'ingest_consumer_lag_seconds{job="ingest",project="game-1",consumer="sink"}': '7200x20' },
      at: '15m',
      fires: {
        labels: { ...ofProject, consumer: 'sink' },
        summary: 'sink of game-1 has not read events of 2h 0m 0s ago',
      },
    },
    {
      fact: 'the oldest unread event is a minute old',
      series: { 'ingest_consumer_lag_seconds{job="ingest",project="game-1",consumer="sink"}': '60x20' },
      at: '15m',
    },
  ],
  IngestDiskLow: [
    {
      fact: '5 % are free',
      series: { [onServer('filesystem_free_bytes')]: '5x20', [onServer('filesystem_size_bytes')]: '100x20' },
      at: '15m',
      fires: { labels: ofServer, summary: '5% of the disk of a is free' },
    },
    {
      fact: 'half is free',
      series: { [onServer('filesystem_free_bytes')]: '50x20', [onServer('filesystem_size_bytes')]: '100x20' },
      at: '15m',
    },
  ],
  IngestDiskFilling: [
    {
      fact: 'it loses 1 MB a minute of 900 MB',
      series: { [onServer('filesystem_free_bytes')]: '900000000-1000000x480' },
      at: '8h',
      fires: { labels: ofServer, summary: 'At the rate of the last 6 hours, the disk of a is full within a day' },
    },
    {
      fact: 'it loses 1 MB a minute of 9 GB',
      series: { [onServer('filesystem_free_bytes')]: '9000000000-1000000x480' },
      at: '8h',
    },
  ],
  IngestFileFull: [
    {
      fact: '90 % of a data file are used',
      series: {
        [onServer('file_bytes', ',environment="ids"')]: '90x30',
        [onServer('file_max_bytes', ',environment="ids"')]: '100x30',
      },
      at: '20m',
      fires: {
        labels: { ...ofServer, environment: 'ids' },
        summary: 'The data file of ids of a has 90% of its limit',
      },
    },
    {
      fact: 'half of a data file is used',
      series: {
        [onServer('file_bytes', ',environment="ids"')]: '50x30',
        [onServer('file_max_bytes', ',environment="ids"')]: '100x30',
      },
      at: '20m',
    },
  ],
  IngestReadersFull: [
    {
      fact: '900 of 1,000 slots are in use',
      series: {
        [onServer('readers', ',environment="events"')]: '900x30',
        [onServer('readers_max', ',environment="events"')]: '1000x30',
      },
      at: '20m',
      fires: {
        labels: { ...ofServer, environment: 'events' },
        summary: '90% of the slots for readers of events of a are in use',
      },
    },
    {
      fact: '9 of 1,000 slots are in use',
      series: {
        [onServer('readers', ',environment="events"')]: '9x30',
        [onServer('readers_max', ',environment="events"')]: '1000x30',
      },
      at: '20m',
    },
  ],
  IngestConnectionsFull: [
    {
      fact: 'statements wait while all connections are active',
      series: {
        [onServer('connections', ',state="active"')]: '20x30',
        [onServer('connections', ',state="idle"')]: '0x30',
        [onServer('connections_max')]: '20x30',
        [onServer('waiting_statements')]: '3x30',
      },
      at: '20m',
      fires: { labels: ofServer, summary: '3 statements of a wait for a connection' },
    },
    {
      fact: 'all connections are active, and nothing waits',
      series: {
        [onServer('connections', ',state="active"')]: '20x30',
        [onServer('connections_max')]: '20x30',
        [onServer('waiting_statements')]: '0x30',
      },
      at: '20m',
    },
  ],
  IngestMergesBehind: [
    {
      fact: 'there are 20 runs of a level',
      series: { [onServer('id_index_runs', ',level="0"')]: '20x30', [onServer('id_index_runs', ',level="1"')]: '2x30' },
      at: '20m',
      fires: {
        labels: { ...ofServer, level: '0' },
        summary: 'The id index of a has 20 runs at level 0, 8 of which make a merge',
      },
    },
    { fact: 'there are 8 runs of a level', series: { [onServer('id_index_runs', ',level="0"')]: '8x30' }, at: '20m' },
  ],
  IngestSnapshotOpen: [
    {
      fact: 'a snapshot is open for more than two hours',
      series: { [onServer('oldest_snapshot_seconds')]: '7260x20' },
      at: '10m',
      fires: {
        labels: { job: 'ingest' },
        summary: 'A session or a replication slot has kept a snapshot of the database open for 2h 1m 0s',
      },
    },
    { fact: 'a dump takes an hour', series: { [onServer('oldest_snapshot_seconds')]: '3600x20' }, at: '10m' },
  ],
}
