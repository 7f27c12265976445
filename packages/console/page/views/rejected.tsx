import { Notice } from '../parts/notice.tsx'

export function RejectedView() {
  return <Notice kind="empty">Not built yet.</Notice>
}
