import './contrast.css'

export { default } from 'vitepress/theme-without-fonts'
