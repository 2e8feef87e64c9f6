import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readFileSync } from 'node:fs';
import { defineConfig } from 'vite';

// `npm run dev` shows the page of this folder with the data of a running server: KITBAG_DATA names that server's data folder.
function running() {
  const folder = process.env.KITBAG_DATA;
  if (!folder) return {};
  const { url, token } = JSON.parse(readFileSync(`${folder}/server.json`, 'utf8')) as { url: string; token: string };
  const target = url.replace(/\/$/, '');
  const headers = { authorization: `Bearer ${token}`, origin: target };
  return Object.fromEntries(
    ['/v1', '/docs', '/openapi.json', '/page/icon.svg'].map((path) => [path, { target, headers, changeOrigin: true }]),
  );
}

export default defineConfig(({ command }) => ({
  // Built, its files are below /page; addresses of views are not.
  base: command === 'build' ? '/page/' : '/',
  plugins: [svelte()],
  // Small files would become `data:` addresses, which the page's policy does not allow for styles and fonts.
  build: { target: 'es2023', assetsInlineLimit: 0, reportCompressedSize: false, modulePreload: { polyfill: false } },
  server: { proxy: running() },
}));
