import { Notice } from '../parts/notice.tsx'

export function LiveView() {
  return <Notice kind="empty">Not built yet.</Notice>
}
