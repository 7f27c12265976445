import { open } from 'node:fs/promises'

/** Makes the names in a directory outlive a power cut: a synced file may otherwise be there under no name. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows has no handle for a folder, and no need of one
  if (process.platform === 'win32') return
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
