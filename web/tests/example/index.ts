// A Kitbag that somebody uses: toolsets, a server, chats with calls, files, something that waits. For what looks at all views.
import { join } from 'node:path';
import { type Kitbag, ROOT } from '../kit.ts';
import { zipFolder } from '../zip.ts';

const HERE = import.meta.dirname;

export const PAGE = `<!doctype html>
<html lang="en">
  <head>
    <title>Bread & Butter</title>
    <link rel="stylesheet" href="style.css">
  </head>
  <body>
    <h1>Bread & Butter</h1>
    <p>Open from six. The sourdough is warm until nine.</p>
  </body>
</html>
`;
const STYLE = `body {
  font: 18px/1.6 Georgia, serif;
  max-width: 40rem;
  margin: 4rem auto;
  background: #fffaf0;
}

h1 {
  color: #8a4b14;
}
`;
const NOTES = `# The bakery

- The page lists what is baked **each day**.
- Orders come by *telephone* only.

| day | bread |
|---|---|
| Monday | sourdough |
| Friday | challah |
`;
const SALES = `month,amount
July,4210
August,3875
September,5120
October,6043
November,5788
`;

export interface Example {
  /** The chat that has files, calls and something that waits. */
  chat: string;
  /** The chat whose call drew something. */
  drawn: string;
  server: string;
}

export async function fill(kitbag: Kitbag): Promise<Example> {
  // As bundles and by short names: pictures are taken of it, and no folder of this machine belongs into one.
  await kitbag.install(zipFolder(join(ROOT, 'examples/app-builder')));
  await kitbag.install(zipFolder(join(HERE, 'sales')));
  const node = { command: 'node', args: ['notes.mjs'], cwd: HERE, description: 'Notes of the team' };
  const server = await kitbag.ask('POST', '/mcp-servers', { id: 'notes', name: 'Notes', ...node });
  await kitbag.ask('POST', `/mcp-servers/${encodeURIComponent(server.id)}/test`);

  await kitbag.ask('POST', '/chats', { title: 'Plan the garden' });
  const drawn = await kitbag.ask('POST', '/chats', { title: 'Sales of the autumn' });
  await say(kitbag, drawn.id, 'user', 'How did the shop do this autumn?');
  await kitbag.ask('PUT', `/chats/${drawn.id}/workspace/files/sales.csv`, Buffer.from(SALES));
  await call(kitbag, drawn.id, 'sales:by_month', { path: 'sales.csv' });
  await say(kitbag, drawn.id, 'assistant', 'October was the best month, with 6,043 in sales.');

  const chat = await kitbag.ask('POST', '/chats', { title: 'A page for the bakery' });
  await say(kitbag, chat.id, 'user', 'Make a small page for our bakery, with its own style.');
  await kitbag.ask('PUT', `/chats/${chat.id}/workspace/files/notes.md`, Buffer.from(NOTES));
  await say(kitbag, chat.id, 'assistant', 'I write the page first, then its **style**.');
  await call(kitbag, chat.id, 'app-builder:write_file', { path: 'site/index.html', content: PAGE });
  await call(kitbag, chat.id, 'app-builder:write_file', { path: 'site/style.css', content: STYLE });
  await call(kitbag, chat.id, `mcp:${server.id}:add_note`, { title: 'Bakery', body: 'The first page is written.' });
  const asks = { command: 'python3 -m http.server --directory site 8000' };
  await kitbag.ask('POST', `/chats/${chat.id}/tool-calls`, { toolId: 'app-builder:run_command', args: asks });
  return { chat: chat.id, drawn: drawn.id, server: server.id };
}

async function say(kitbag: Kitbag, chat: string, role: string, content: string): Promise<void> {
  await kitbag.ask('POST', `/chats/${chat}/messages`, { role, content });
}

async function call(kitbag: Kitbag, chat: string, toolId: string, args: object): Promise<void> {
  let made = await kitbag.ask('POST', `/chats/${chat}/tool-calls`, { toolId, args });
  if (made.status === 'pending')
    made = await kitbag.ask('POST', `/chats/${chat}/tool-calls/${made.id}/decision`, { approve: true });
  if (made.status !== 'success') throw new Error(`${toolId}: ${JSON.stringify(made.error)}`);
}
