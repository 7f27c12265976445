/** The folder of events received at this time, in milliseconds since 1970: `dt=2026-11-20/hour=17`, in UTC. */
export function hivePartition(receivedAt: number): string {
  const [date, time = ''] = new Date(receivedAt).toISOString().split('T')
  return `dt=${date}/hour=${time.slice(0, 2)}`
}

/** Removes the folder of {@link hivePartition} from the path of a file. */
export function withoutPartition(file: string): string {
  return file.replace(/^dt=[+-]?\d{4,6}-\d\d-\d\d\/hour=\d\d\//, '')
}
