import { Notice } from '../parts/notice.tsx'

export function NowView() {
  return <Notice kind="empty">Not built yet.</Notice>
}
