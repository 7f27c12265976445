import { Notice } from '../parts/notice.tsx'

export function FindView() {
  return <Notice kind="empty">Not built yet.</Notice>
}
