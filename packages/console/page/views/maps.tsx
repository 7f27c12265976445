import { Notice } from '../parts/notice.tsx'

export function MapsView() {
  return <Notice kind="empty">Not built yet.</Notice>
}
