export { default } from 'vitepress/theme-without-fonts'
