// Packs what `vite build` made, so that the server need not, and checks how much a first visit loads.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const FIRST_LOAD = 300_000;
const dist = new URL('../dist', import.meta.url).pathname;
const packable = /\.(js|css|html|svg|json)$/;
const sizes = new Map();

for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name);
  if (!entry.isFile() || !packable.test(path)) continue;
  const plain = readFileSync(path);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
  const packed = brotliCompressSync(plain, { params });
  if (packed.length < plain.length) writeFileSync(`${path}.br`, packed);
  sizes.set(relative(dist, path), Math.min(packed.length, plain.length));
}

// What the document names is loaded at once, with what those files import; the rest when it is needed.
const first = new Set(['index.html']);
const queue = [...readFileSync(join(dist, 'index.html'), 'utf8').matchAll(/\/page\/([^"]+\.(?:js|css))"/g)].map(
  (found) => found[1],
);
for (let name = queue.pop(); name; name = queue.pop()) {
  if (first.has(name) || !sizes.has(name)) continue;
  first.add(name);
  if (!name.endsWith('.js')) continue;
  const text = readFileSync(join(dist, name), 'utf8');
  for (const [, file] of text.matchAll(/(?:from|import)\s*["']\.\/([^"']+)["']/g)) queue.push(`assets/${file}`);
}
const sum = (names) => [...names].reduce((total, name) => total + (sizes.get(name) ?? 0), 0);
const kilobytes = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;
console.log(
  `first load ${kilobytes(sum(first))} packed, of ${kilobytes(FIRST_LOAD)}; all ${sizes.size} files ${kilobytes(sum(sizes.keys()))}`,
);
if (sum(first) > FIRST_LOAD) {
  console.error('The first load is too large: load what a first look does not need by import().');
  process.exit(1);
}
