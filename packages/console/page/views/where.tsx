import { Notice } from '../parts/notice.tsx'

export function WhereView() {
  return <Notice kind="empty">Not built yet.</Notice>
}
