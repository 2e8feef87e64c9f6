// Every way to show a result, with calls of real tools.
import { expect, test, type Kitbag } from './kit.ts';
import { call, chat, zip } from './toolset.ts';

const CODE = `
from typing import Any
from pathlib import Path
from covalt_toolset import get_context, tool
import sys

@tool
def say(value: Any) -> Any:
    """Says it again."""
    return value

@tool
def write(path: str, content: str) -> dict:
    """Writes a file."""
    target = Path(get_context().workspace) / path
    target.write_bytes(content.encode())
    return {"path": path}

@tool
def serve(port: int) -> dict:
    """Serves the workspace."""
    get_context().start_process([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], name="web")
    return {"port": port}
`;

const MANIFEST = `manifest_version: "1"
id: kit
name: Kit
version: "1.0.0"
permissions: {listen: true}
tools:
  - {id: say, entrypoint: "tools.t:say"}
  - {id: page, entrypoint: "tools.t:say", renderer: {type: html, artifact: artifacts/page.html, data: "$return"}}
  - {id: source, entrypoint: "tools.t:write", renderer: {type: code, file: "$args.path", language: auto, editable: true}}
  - {id: snippet, entrypoint: "tools.t:say", renderer: {type: code, content: "$return.code", language: python}}
  - {id: note, entrypoint: "tools.t:write", renderer: {type: document, file: "$args.path", editable: true}}
  - {id: work, entrypoint: "tools.t:write", renderer: {type: editor, path: "$args.path"}}
  - {id: facts, entrypoint: "tools.t:say", renderer: {type: key-value}}
  - {id: shell, entrypoint: "tools.t:say"}
  - {id: todo_write, entrypoint: "tools.t:say"}
  - {id: web_search, entrypoint: "tools.t:say"}
  - {id: task, entrypoint: "tools.t:say"}
  - {id: apply_patch, entrypoint: "tools.t:say"}
  - {id: serve, entrypoint: "tools.t:serve", renderer: {type: frame, port: "$return.port"}}
`;

const PAGE = `<!doctype html><title>page</title><h1 id="title"></h1>
<script>document.getElementById('title').textContent = 'Sum: ' + window.__TOOL_DATA__.points.reduce((a, b) => a + b);</script>`;

const KIT = zip({ 'toolset.yaml': MANIFEST, 'tools/t.py': CODE, 'artifacts/page.html': PAGE });
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

async function kit(
  kitbag: Kitbag,
): Promise<{ inChat: string; make: (tool: string, args: object, status?: string) => Promise<string> }> {
  await kitbag.install(KIT);
  const inChat = await chat(kitbag);
  return {
    inChat,
    make: async (tool, args, status) => `/chats/${inChat}/calls/${(await call(kitbag, inChat, tool, args, status)).id}`,
  };
}

async function file(kitbag: Kitbag, inChat: string, path: string): Promise<string> {
  return kitbag.ask('GET', `/chats/${inChat}/workspace/files/${path}`);
}

test('a page shows its data; a program that a tool left running is shown through its frame', async ({
  kitbag,
  page,
}) => {
  const { inChat, make } = await kit(kitbag);
  await kitbag.open(page, await make('kit:page', { value: { points: [1, 2, 39] } }));
  await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Sum: 42' })).toBeVisible();
  await expect(page.locator('iframe')).toHaveAttribute('sandbox', 'allow-scripts');
  // Loaded again, it is asked for anew.
  await page.getByRole('button', { name: 'Load again' }).click();
  await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Sum: 42' })).toBeVisible();

  await kitbag.ask('PUT', `/chats/${inChat}/workspace/files/index.html`, Buffer.from('<h1>Served by a tool</h1>'));
  const served = await make('kit:serve', { port: 3000 });
  await kitbag.open(page, served);
  await expect(async () => {
    await page.getByRole('button', { name: 'Load again' }).click();
    await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Served by a tool' })).toBeVisible({
      timeout: 3000,
    });
  }).toPass();
});

test('code of the workspace is edited and saved; what changed meanwhile is shown and nothing is lost', async ({
  kitbag,
  page,
}) => {
  const { inChat, make } = await kit(kitbag);
  const url = await make('kit:source', { path: 'a.py', content: 'x = 1\n' });
  await kitbag.open(page, url);
  const editor = page.getByRole('textbox', { name: 'a.py' });
  await expect(editor).toContainText('x = 1');
  await expect(page.getByRole('link', { name: 'Open in workspace' })).toHaveAttribute('href', `/files/${inChat}/a.py`);

  // What a tool writes is there at once, as long as nothing here would be lost.
  await call(kitbag, inChat, 'kit:source', { path: 'a.py', content: 'x = 2\n' });
  await expect(editor).toContainText('x = 2');

  await editor.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('y = 3');
  await expect(page.getByText('Not saved')).toBeVisible();
  await page.keyboard.press('Control+s');
  await expect(page.getByText('Not saved')).toBeHidden();
  expect(await file(kitbag, inChat, 'a.py')).toBe('x = 2\ny = 3');

  // Now both change it.
  await page.keyboard.type(' # mine');
  await call(kitbag, inChat, 'kit:source', { path: 'a.py', content: 'theirs\n' });
  await expect(page.getByText('The file was changed meanwhile')).toBeVisible();
  await expect(editor).toContainText('# mine');
  expect(await file(kitbag, inChat, 'a.py')).toBe('theirs\n');
  await page.getByRole('button', { name: 'See the difference' }).click();
  const dialog = page.getByRole('dialog', { name: 'Theirs and mine' });
  await expect(dialog.getByRole('textbox', { name: 'Before' })).toContainText('theirs');
  await expect(dialog.getByRole('textbox', { name: 'After' })).toContainText('# mine');
  await dialog.getByRole('button', { name: 'Keep mine' }).click();
  await expect(page.getByText('The file was changed meanwhile')).toBeHidden();
  expect(await file(kitbag, inChat, 'a.py')).toBe('x = 2\ny = 3 # mine');

  await editor.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(' more');
  await call(kitbag, inChat, 'kit:source', { path: 'a.py', content: 'theirs again\n' });
  await page.getByRole('button', { name: 'Take theirs' }).click();
  await expect(editor).toContainText('theirs again');
  expect(await file(kitbag, inChat, 'a.py')).toBe('theirs again\n');
});

test('R12: a save over what the server has changed without telling is refused and shown', async ({ kitbag, page }) => {
  const { inChat, make } = await kit(kitbag);
  // No events reach this page: it cannot know.
  await page.route('**/events*', (route) =>
    route.fulfill({ contentType: 'text/event-stream', body: 'event: ready\ndata: {}\n\n' }),
  );
  await kitbag.open(page, await make('kit:work', { path: 'n.txt', content: 'one\r\ntwo\r\n' }));
  const editor = page.getByRole('textbox', { name: 'n.txt' });
  await editor.click();
  await page.keyboard.press('Control+Home');
  await page.keyboard.type('mine ');
  await kitbag.ask('PUT', `/chats/${inChat}/workspace/files/n.txt`, Buffer.from('theirs'));
  await page.keyboard.press('Control+s');
  await expect(page.getByText('The file was changed meanwhile')).toBeVisible();
  expect(await file(kitbag, inChat, 'n.txt')).toBe('theirs');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  await expect(page.getByText('The file was changed meanwhile')).toBeHidden();
  // How its lines ended is how they end.
  expect(await file(kitbag, inChat, 'n.txt')).toBe('mine one\r\ntwo\r\n');
});

test('a document is read as it is meant, edited and saved', async ({ kitbag, page }) => {
  const { inChat, make } = await kit(kitbag);
  await kitbag.ask('PUT', `/chats/${inChat}/workspace/files/pixel.png`, Buffer.from(PIXEL, 'base64'));
  const content = '# Title\n\n- [x] done\n\n[other](other.md) [web](https://example.org)\n\n![dot](pixel.png)\n';
  await kitbag.open(page, await make('kit:note', { path: 'n.md', content }));
  await expect(page.getByRole('heading', { name: 'Title' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'other' })).toHaveAttribute('href', `/files/${inChat}/other.md`);
  const web = page.getByRole('link', { name: 'web' });
  await expect(web).toHaveAttribute('rel', 'noopener noreferrer');
  await expect(web).toHaveAttribute('target', '_blank');
  await expect
    .poll(() => page.getByRole('img', { name: 'dot' }).evaluate((image: HTMLImageElement) => image.naturalWidth))
    .toBe(1);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('textbox', { name: 'n.md' }).click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('## More');
  await page.getByRole('button', { name: 'Save' }).click();
  // The buttons move together when it is saved.
  await expect(page.getByRole('button', { name: 'Save' })).toHaveCount(0);
  await page.getByRole('button', { name: 'Read' }).click();
  await expect(page.getByRole('heading', { name: 'More' })).toBeVisible();
  expect(await file(kitbag, inChat, 'n.md')).toBe(`${content}## More`);
});

test('results by their kind', async ({ kitbag, page }) => {
  const { make } = await kit(kitbag);
  await kitbag.open(page, await make('kit:snippet', { value: { code: 'def f(): pass' } }));
  await expect(page.getByRole('textbox', { name: 'Result' })).toContainText('def f(): pass');
  await expect(page.getByRole('textbox', { name: 'Result' })).toHaveAttribute('aria-readonly', 'true');

  await page.goto(
    kitbag.url + (await make('kit:facts', { value: { Name: 'Ada', Home: 'https://example.org', Deep: { a: 1 } } })),
  );
  await expect(page.getByRole('term').first()).toHaveText('Name');
  await expect(page.getByRole('link', { name: 'https://example.org' })).toBeVisible();

  const output = '\x1b[31mred\x1b[0m <b>plain</b>\n\x1b]0;title\x07\x1b[2Kten\rtwo\n';
  await page.goto(kitbag.url + (await make('kit:shell', { value: { output, exit_code: 3 } })));
  await expect(page.getByText('red', { exact: true })).toHaveClass(/ansi-red-fg/);
  await expect(page.getByLabel('Output', { exact: true }).last()).toHaveText('red <b>plain</b>\ntwo\n');
  await expect(page.getByText('Exit code 3')).toBeVisible();

  const todos = [
    { content: 'Read', status: 'completed' },
    { content: 'Write', status: 'in_progress' },
  ];
  await page.goto(kitbag.url + (await make('kit:todo_write', { value: { todos } })));
  await expect(page.getByText('1 of 2 done')).toBeVisible();
  await expect(page.getByRole('listitem').filter({ hasText: 'Write' })).toContainText('Under way');

  const results = [
    { title: 'Found it', url: 'https://example.org/x', snippet: 'Words' },
    { title: 'Bad', url: 'javascript:alert(1)' },
  ];
  await page.goto(kitbag.url + (await make('kit:web_search', { value: { results } })));
  await expect(page.getByRole('link', { name: 'Found it' })).toHaveAttribute('href', 'https://example.org/x');
  await expect(page.getByText('Bad', { exact: true })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Bad' })).toHaveCount(0);

  await page.goto(kitbag.url + (await make('kit:task', { value: '**Done** it' })));
  await expect(page.locator('strong', { hasText: 'Done' })).toBeVisible();

  const patch =
    '--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n--- /dev/null\n+++ b/y.py\n@@ -0,0 +1 @@\n+made\n';
  await page.goto(kitbag.url + (await make('kit:apply_patch', { value: { patch } })));
  await expect(page.getByRole('region', { name: 'x.py' }).getByRole('textbox', { name: 'Before' })).toContainText(
    'old',
  );
  await expect(page.getByRole('region', { name: 'x.py' }).getByRole('textbox', { name: 'After' })).toContainText('new');
  await expect(page.getByRole('region', { name: 'y.py' })).toContainText('added');
});

test('the tools that are compiled in: files and commands', async ({ kitbag, page }) => {
  const { inChat, make } = await kit(kitbag);
  await make('write_file', { path: 'a.txt', content: 'one\ntwo\n' });
  await kitbag.open(page, await make('edit_file', { path: 'a.txt', old: 'two', new: 'three' }));
  await expect(page.getByRole('textbox', { name: 'Before' })).toContainText('two');
  await expect(page.getByRole('textbox', { name: 'After' })).toContainText('three');
  await page.getByRole('button', { name: 'In one column' }).click();
  await expect(page.getByRole('textbox', { name: 'Changes' })).toContainText('three');

  await page.goto(kitbag.url + (await make('read_file', { path: 'a.txt', limit: 1 })));
  await expect(page.getByRole('textbox', { name: 'a.txt' })).toContainText('one');
  await expect(page.getByText('Lines 1 to 1 of 2')).toBeVisible();
  await expect(page.getByRole('link', { name: 'Open in workspace' })).toHaveAttribute('href', `/files/${inChat}/a.txt`);

  await page.goto(kitbag.url + (await make('run_command', { command: 'echo hello' })));
  await expect(page.getByLabel('Output', { exact: true }).last()).toHaveText('hello\n');
  await expect(page.getByText('Exit code 0')).toBeVisible();

  // A call that failed shows why, whatever its renderer is.
  await page.goto(kitbag.url + (await make('read_file', { path: 'none.txt' }, 'error')));
  await expect(page.getByRole('alert')).toContainText('TOOL_FAILED');
  await expect(page.getByRole('alert')).toContainText('none.txt');
});

test('what nothing is known of is shown by its shape, and folded when it is large', async ({ kitbag, page }) => {
  const { make } = await kit(kitbag);
  const deep = { small: { a: 1 }, big: Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`key${at}`, at])) };
  await kitbag.open(page, await make('kit:say', { value: deep }));
  const big = page.getByRole('button', { name: 'big' });
  await expect(big).toHaveAttribute('aria-expanded', 'false');
  await expect(page.getByRole('button', { name: 'small' })).toHaveAttribute('aria-expanded', 'true');
  await expect(page.getByText('key499')).toHaveCount(0);
  await big.click();
  await expect(page.getByText('key99', { exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Show more' }).click();
  await expect(page.getByText('key499', { exact: true })).toBeVisible();

  const rows = Array.from({ length: 1000 }, (_, at) => ({ number: (at * 7) % 1000, word: `w${at}` }));
  await page.goto(kitbag.url + (await make('kit:say', { value: rows })));
  await expect(page.getByRole('region', { name: 'Table, 1,000 rows' })).toBeVisible();
  expect(await page.locator('tbody tr').count()).toBeLessThan(100);
  await page.getByRole('button', { name: 'number' }).click();
  await expect(page.getByRole('columnheader', { name: 'number' })).toHaveAttribute('aria-sort', 'ascending');
  await expect(page.locator('tbody td').first()).toHaveText('0');
  await page.getByRole('region', { name: 'Table', exact: true }).evaluate((box) => box.scrollTo(0, box.scrollHeight));
  await expect(page.getByRole('cell', { name: '999', exact: true })).toBeVisible();

  await page.goto(kitbag.url + (await make('kit:say', { value: `data:image/png;base64,${PIXEL}` })));
  await expect
    .poll(() =>
      page
        .getByRole('img')
        .last()
        .evaluate((image: HTMLImageElement) => image.naturalWidth),
    )
    .toBe(1);

  // A large result is fetched when it is wanted.
  await page.goto(kitbag.url + (await make('kit:say', { value: { text: 'x'.repeat(3_000_000), end: 'the end' } })));
  await expect(page.getByText('The result is large')).toBeVisible();
  await expect(page.getByText('the end')).toHaveCount(0);
  await page.getByRole('button', { name: 'Show all of it' }).click();
  await expect(page.getByText('the end')).toBeVisible();
});

test('answers of an MCP server: all kinds of blocks', async ({ kitbag, page }) => {
  const { make } = await kit(kitbag);
  const content = [
    { type: 'text', text: 'Words <b>as they are</b>' },
    { type: 'image', mimeType: 'image/png', data: PIXEL },
    { type: 'audio', mimeType: 'audio/wav', data: 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=' },
    { type: 'resource_link', uri: 'https://example.org/doc', name: 'A document', description: 'What it is' },
    { type: 'resource_link', uri: 'javascript:alert(1)', name: 'No link' },
    { type: 'resource', resource: { uri: 'file:///a/notes.py', text: 'x = 1' } },
    { type: 'resource', resource: { uri: 'file:///a/blob.bin', blob: 'AAEC', mimeType: 'application/zip' } },
    { type: 'image', mimeType: 'text/html', data: PIXEL },
  ];
  await kitbag.open(page, await make('kit:say', { value: { content, structuredContent: { rows: 2 } } }));
  await expect(page.getByText('Words <b>as they are</b>')).toBeVisible();
  await expect
    .poll(() => page.getByRole('img', { name: 'Image' }).evaluate((image: HTMLImageElement) => image.naturalWidth))
    .toBe(1);
  await expect(page.locator('audio')).toBeVisible();
  await expect(page.getByRole('link', { name: 'A document' })).toHaveAttribute('rel', 'noopener noreferrer');
  await expect(page.getByText('No link')).toBeVisible();
  await expect(page.getByRole('link', { name: 'No link' })).toHaveCount(0);
  await expect(page.getByRole('textbox', { name: 'file:///a/notes.py' })).toContainText('x = 1');
  await expect(page.getByRole('link', { name: 'Download' })).toHaveAttribute('download', 'blob.bin');
  await expect(page.getByText('rows', { exact: true })).toBeVisible();
});
