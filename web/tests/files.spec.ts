import type { Page } from '@playwright/test';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, type Kitbag, ROOT, test } from './kit.ts';
import { zip, zipFolder } from './zip.ts';

/** A chat whose workspace has these files. */
async function chatWith(kitbag: Kitbag, files: Record<string, string | Uint8Array>): Promise<string> {
  const { id } = await kitbag.ask('POST', '/chats', { title: 'A chat with files' });
  if (Object.keys(files).length > 0) await upload(kitbag, id, Object.entries(files));
  return id;
}

async function upload(kitbag: Kitbag, chat: string, files: [string, string | Uint8Array][]): Promise<void> {
  const headers = { 'content-type': 'application/zip' };
  await kitbag.ask('POST', `/chats/${chat}/workspace/uploads?replace=true`, zip(files), headers);
}

const put = (kitbag: Kitbag, chat: string, path: string, text: string) =>
  kitbag.ask('PUT', `/chats/${chat}/workspace/files/${path}`, new TextEncoder().encode(text));

/** What the workspace has there; nothing if there is no such file. */
const get = (kitbag: Kitbag, chat: string, path: string): Promise<string | undefined> =>
  kitbag.ask<string>('GET', `/chats/${chat}/workspace/files/${path}`).catch((error: Error) => {
    if (error.message.includes(': 404 ')) return undefined;
    throw error;
  });

const tree = (page: Page) => page.getByRole('tree', { name: 'Files' });
const item = (page: Page, name: string) => tree(page).getByRole('treeitem', { name, exact: true });
const editor = (page: Page, name: string) => page.getByRole('textbox', { name: `The text of ${name}` });
const toast = (page: Page, text: string) => page.locator('.toast', { hasText: text });

/** Waits until the editor of a file has this text in it. */
async function shows(page: Page, name: string, text: string): Promise<void> {
  const has = () =>
    editor(page, name).evaluate((box) => (box instanceof HTMLTextAreaElement ? box.value : (box.textContent ?? '')));
  await expect.poll(has).toContain(text);
}

/** Writes over what is in the editor, as somebody who types. */
async function type(page: Page, name: string, text: string): Promise<void> {
  await editor(page, name).click();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type(text);
}

test('a file is found, edited and saved; what others change is seen at once', async ({ kitbag, page }) => {
  const chat = await chatWith(kitbag, {
    'README.md': '# Read me\n\nHello.\n',
    'src/main.py': 'print("one")\n',
    'src/deep/down/util.py': 'x = 1\r\ny = 2\r\n',
    'logo.svg': '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20"/></svg>',
    'data.bin': new Uint8Array([0, 1, 2, 254, 255]),
    'empty.txt': '',
  });
  await kitbag.open(page, `/files/${chat}`);
  await item(page, 'main.py').click();
  await expect(page).toHaveURL(`${kitbag.url}/files/${chat}/src/main.py`);
  await shows(page, 'main.py', 'print("one")');
  await type(page, 'main.py', 'print("two")\n');
  await expect(item(page, 'main.py, not saved')).toBeVisible();
  await page.keyboard.press('ControlOrMeta+s');
  await expect(page.getByText('Saved', { exact: true })).toBeVisible();
  expect(await get(kitbag, chat, 'src/main.py')).toBe('print("two")\n');

  // Lines that end in CR LF still do after an edit.
  await item(page, 'util.py').click();
  await type(page, 'util.py', 'x = 3\ny = 4\n');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('Saved', { exact: true })).toBeVisible();
  expect(await get(kitbag, chat, 'src/deep/down/util.py')).toBe('x = 3\r\ny = 4\r\n');

  // By type.
  await item(page, 'logo.svg').click();
  await expect(page.getByRole('img', { name: 'logo.svg' })).toHaveJSProperty('naturalWidth', 20);
  await item(page, 'data.bin').click();
  await expect(page.getByText('00 01 02 fe ff')).toBeVisible();
  await item(page, 'README.md').click();
  await expect(page.getByRole('button', { name: 'Rendered' })).toHaveAttribute('aria-pressed', 'true');
  await expect(page.getByText('Hello.')).toBeVisible();
  await item(page, 'empty.txt').click();
  await expect(editor(page, 'empty.txt')).toBeVisible();

  // Live: a file that comes, one that changes while it is shown, one that goes.
  await put(kitbag, chat, 'src/new.py', 'new = True\n');
  await item(page, 'new.py').click();
  await shows(page, 'new.py', 'new = True');
  await put(kitbag, chat, 'src/new.py', 'new = False\n');
  await shows(page, 'new.py', 'new = False');
  await kitbag.ask('DELETE', `/chats/${chat}/workspace/files/src/new.py`);
  await expect(item(page, 'new.py')).toHaveCount(0);
  await expect(page.getByRole('heading', { name: 'There is no such file' })).toBeVisible();
});

test('a file that changed meanwhile is not overwritten, and no edit is lost', async ({ kitbag, page }) => {
  const chat = await chatWith(kitbag, { 'a.txt': 'first\n', 'b.txt': 'other\n' });
  await kitbag.open(page, `/files/${chat}/a.txt`);
  await type(page, 'a.txt', 'mine\n');
  await expect(page.getByRole('button', { name: 'Save' })).toBeEnabled();

  // Another file, another view and a reload of the page keep it.
  await item(page, 'b.txt').click();
  await shows(page, 'b.txt', 'other');
  await page.getByRole('link', { name: 'Settings' }).click();
  page.once('dialog', (dialog) => void dialog.accept());
  await page.goto(`${kitbag.url}/files/${chat}/a.txt`);
  await shows(page, 'a.txt', 'mine');

  // The page does not hear of this change before it saves: the server says so.
  await page.route('**/workspace/files/a.txt', async (route) => {
    if (route.request().method() === 'PUT') await put(kitbag, chat, 'a.txt', 'theirs\n');
    await route.continue();
  });
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByText('a.txt was changed by somebody else')).toBeVisible();
  await page.unroute('**/workspace/files/a.txt');
  expect(await get(kitbag, chat, 'a.txt')).toBe('theirs\n');
  await shows(page, 'a.txt', 'mine');
  await page.getByRole('button', { name: 'Show the difference' }).click();
  await expect(page.locator('.difference')).toContainText('theirs');
  await expect(page.locator('.difference')).toContainText('mine');

  // Theirs, back to mine, and mine it is.
  await page.getByRole('button', { name: 'Take theirs' }).click();
  await shows(page, 'a.txt', 'theirs');
  await toast(page, 'Your edits of a.txt were given up').getByRole('button', { name: 'Undo' }).click();
  await shows(page, 'a.txt', 'mine');
  await page.getByRole('button', { name: 'Keep mine' }).click();
  await expect(page.getByText('Saved', { exact: true })).toBeVisible();
  expect(await get(kitbag, chat, 'a.txt')).toBe('mine\n');

  // One that is deleted while it is edited is said to be, and can be written again.
  await type(page, 'a.txt', 'still here\n');
  await kitbag.ask('DELETE', `/chats/${chat}/workspace/files/a.txt`);
  await expect(page.getByText('a.txt was deleted while you edited it')).toBeVisible();
  await page.getByRole('button', { name: 'Write it again' }).click();
  await expect(page.getByText('Saved', { exact: true })).toBeVisible();
  expect(await get(kitbag, chat, 'a.txt')).toBe('still here\n');
});

test('files are uploaded, made, renamed and deleted, and each can be undone', async ({ kitbag, page }) => {
  const chat = await chatWith(kitbag, { 'docs/note.txt': 'a note\n' });
  await kitbag.open(page, `/files/${chat}`);
  const local = mkdtempSync(join(tmpdir(), 'kitbag-upload-'));
  mkdirSync(join(local, 'set/inner'), { recursive: true });
  writeFileSync(join(local, 'set/inner/deep.txt'), 'deep\n');
  writeFileSync(join(local, 'note.txt'), 'another note\n');

  await page.getByLabel('A folder to upload').setInputFiles(join(local, 'set'));
  await expect(toast(page, 'Uploaded deep.txt.')).toBeVisible();
  expect(await get(kitbag, chat, 'set/inner/deep.txt')).toBe('deep\n');

  // Dropped on a folder, with a name that is taken.
  const dropped = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(['another note\n'], 'note.txt'));
    return data;
  });
  await item(page, 'docs').dispatchEvent('dragover', { dataTransfer: dropped });
  await expect(page.getByText('Drop to upload to docs')).toBeVisible();
  await item(page, 'docs').dispatchEvent('drop', { dataTransfer: dropped });
  await page.getByRole('dialog').getByRole('button', { name: 'Keep both' }).click();
  await expect(item(page, 'note_1.txt')).toBeVisible();
  expect(await get(kitbag, chat, 'docs/note.txt')).toBe('a note\n');
  expect(await get(kitbag, chat, 'docs/note_1.txt')).toBe('another note\n');
  await toast(page, 'to docs').getByRole('button', { name: 'Undo' }).click();
  await expect(item(page, 'note_1.txt')).toHaveCount(0);

  // A new file, with its folders; where one is, none is made.
  await page.getByRole('button', { name: 'New file' }).click();
  await page.getByLabel('Path', { exact: true }).fill('docs/note.txt');
  await page.getByRole('button', { name: 'Make it' }).click();
  await expect(page.getByText('There is a file of that name already.')).toBeVisible();
  await page.getByLabel('Path', { exact: true }).fill('new/folder/file.txt');
  await page.getByRole('button', { name: 'Make it' }).click();
  await expect(page).toHaveURL(/new\/folder\/file\.txt$/);
  await expect(item(page, 'file.txt')).toHaveAttribute('aria-selected', 'true');
  expect(await get(kitbag, chat, 'new/folder/file.txt')).toBe('');

  // By the keys of the tree.
  await item(page, 'note.txt').click();
  await page.keyboard.press('F2');
  await page.getByLabel('Path', { exact: true }).fill('docs/renamed.txt');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/docs\/renamed\.txt$/);
  expect(await get(kitbag, chat, 'docs/renamed.txt')).toBe('a note\n');
  await toast(page, 'is now docs/renamed.txt').getByRole('button', { name: 'Undo' }).click();
  await item(page, 'note.txt').click();
  await page.keyboard.press('Delete');
  await expect(item(page, 'note.txt')).toHaveCount(0);
  expect(await get(kitbag, chat, 'docs/note.txt')).toBeUndefined();
  await toast(page, 'Deleted note.txt').getByRole('button', { name: 'Undo' }).click();
  await expect(item(page, 'note.txt')).toBeVisible();
  expect(await get(kitbag, chat, 'docs/note.txt')).toBe('a note\n');

  // A whole folder, from its menu.
  await item(page, 'set').click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await expect(item(page, 'set')).toHaveCount(0);
  await toast(page, 'Deleted set with 1 file').getByRole('button', { name: 'Undo' }).click();
  await expect(item(page, 'set')).toBeVisible();

  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download all as ZIP' }).click();
  expect((await download).suggestedFilename()).toBe('workspace.zip');
});

test('the history is browsed, compared and restored; a run marks what it changed', async ({ kitbag, page }) => {
  await kitbag.install(zipFolder(join(ROOT, 'examples/app-builder')));
  const chat = await chatWith(kitbag, {});
  const say = (content: string, parentId?: string) =>
    kitbag.ask('POST', `/chats/${chat}/messages`, { role: 'user', content, parentId });
  const start = await say('Hello');
  await upload(kitbag, chat, [
    ['kept.txt', 'kept\n'],
    ['src/app.txt', 'one\n'],
  ]);
  await kitbag.open(page, `/files/${chat}`);
  await expect(item(page, 'app.txt')).toBeVisible();
  await say('Say two');
  const run = (text: string) =>
    kitbag.ask('POST', `/chats/${chat}/tool-calls`, {
      toolId: 'app-builder:write_file',
      args: { path: 'src/app.txt', content: text },
    });
  expect((await run('two\n')).status).toBe('success');
  await expect(item(page, 'app.txt, changed in the last run')).toBeVisible();
  await expect(item(page, 'src, changed in the last run')).toBeVisible();
  await page.getByRole('button', { name: '1 changed in the last run' }).click();
  await expect(item(page, 'kept.txt')).toHaveCount(0);
  await page.reload();
  await expect(item(page, 'app.txt, changed in the last run')).toBeVisible();

  // Another branch.
  await say('Say three', start.id);
  await run('three\n');
  await item(page, 'app.txt, changed in the last run').click();
  await shows(page, 'app.txt', 'three');

  await page.getByRole('tab', { name: 'History' }).click();
  const states = page.getByRole('list', { name: 'States, newest first' });
  const ran = states.getByRole('link', { name: /write_file ran/ });
  await expect(ran.first()).toContainText('1 file changed');
  await expect(states.getByText('now', { exact: true })).toHaveCount(1);
  await states.getByRole('link', { name: /Upload/ }).click();
  await page.getByRole('link', { name: 'Browse its files' }).click();
  await expect(page.getByText('It cannot be edited.')).toBeVisible();
  await item(page, 'app.txt').click();
  await shows(page, 'app.txt', 'one');
  await expect(page.getByRole('button', { name: 'Save' })).toHaveCount(0);

  // One file comes back, and goes again.
  await page.getByRole('button', { name: 'Restore this file' }).click();
  await expect(toast(page, 'app.txt is back')).toBeVisible();
  expect(await get(kitbag, chat, 'src/app.txt')).toBe('one\n');
  await toast(page, 'app.txt is back').getByRole('button', { name: 'Undo' }).click();
  await expect.poll(() => get(kitbag, chat, 'src/app.txt')).toBe('three\n');

  // The two branches differ in one file.
  await page.getByRole('tab', { name: 'Compare' }).click();
  await page.getByLabel('Before', { exact: true }).selectOption({ label: 'Say two' });
  await page.getByLabel('After', { exact: true }).selectOption({ label: 'Say three' });
  await expect(page.getByText('1 file differs')).toBeVisible();
  await page.getByRole('list', { name: 'Files that differ' }).getByRole('link').click();
  const difference = page.getByRole('region', { name: 'What was chosen' });
  await expect(difference).toContainText('two');
  await expect(difference).toContainText('three');

  // All of it comes back, and goes again.
  await page.getByRole('tab', { name: 'History' }).click();
  await states.getByRole('link', { name: /Upload/ }).click();
  await page.getByRole('button', { name: 'Restore this state' }).click();
  await expect(toast(page, 'The workspace is back at that state')).toBeVisible();
  expect(await get(kitbag, chat, 'src/app.txt')).toBe('one\n');
  await toast(page, 'The workspace is back').getByRole('button', { name: 'Undo' }).click();
  await expect.poll(() => get(kitbag, chat, 'src/app.txt')).toBe('three\n');
});

test('20,000 files: few rows exist, the last one is reached, a filter finds one among them', async ({
  kitbag,
  page,
}) => {
  // Only to give a busy machine the time it needs.
  test.slow();
  const many = Array.from({ length: 20_000 }, (_, at): [string, string] => [
    `src/package-${Math.floor(at / 1000)}/file-${at}.txt`,
    `${at}\n`,
  ]);
  const { id: chat } = await kitbag.ask('POST', '/chats', { title: 'Large' });
  await upload(kitbag, chat, many);
  await kitbag.open(page, `/files/${chat}`);
  await expect(page.getByText('20,000 files')).toBeVisible();
  const rows = tree(page).getByRole('treeitem');
  const few = async () => expect(await rows.count()).toBeLessThan(80);

  // All folders open: 20,021 rows, of which few exist.
  await tree(page).focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('*');
  await few();
  await page.keyboard.press('End');
  await expect(item(page, 'file-19999.txt')).toBeVisible();
  await few();
  await page.keyboard.press('Enter');
  await shows(page, 'file-19999.txt', '19999');
  // What was opened stays open.
  await tree(page).evaluate((box) => (box.scrollTop = box.scrollHeight / 2));
  await expect(item(page, 'file-10000.txt')).toBeVisible();
  await few();

  await page.getByLabel('Filter files').fill('package-7 7123');
  await expect(item(page, 'file-7123.txt')).toBeVisible();
  await expect(rows).toHaveCount(3);
  await page.getByLabel('Filter files').press('Enter');
  await shows(page, 'file-7123.txt', '7123');
  await page.getByLabel('Filter files').fill('file');
  await expect(page.getByText('20,000 files of 20,000')).toBeVisible();
  await few();

  // A change of one is one change: it is applied, and the list is not begun anew.
  await page.getByLabel('Filter files').fill('');
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await put(kitbag, chat, 'src/brand-new.txt', 'new\n');
  await page.getByLabel('Filter files').fill('brand-new');
  await expect(item(page, 'brand-new.txt')).toBeVisible();
  expect(asked.filter((url) => /workspace\/(files|manifest)(\?(?!.*cursor)|$)/.test(url))).toEqual([]);
});
