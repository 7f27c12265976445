import { Notice } from '../parts/notice.tsx'

export function TryView() {
  return <Notice kind="empty">Not built yet.</Notice>
}
