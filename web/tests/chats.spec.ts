// Chats: tools run by form, approved, denied, cancelled and run again; messages written by hand; branches with their workspaces.
import { type Locator, type Page } from '@playwright/test';
import { join } from 'node:path';
import { demo } from './demo.ts';
import { expect, type Kitbag, ROOT, test } from './kit.ts';
import { zipFolder } from './zip.ts';

const appBuilder = () => zipFolder(join(ROOT, 'examples/app-builder'));

/** A new chat, opened. */
async function open(kitbag: Kitbag, page: Page): Promise<string> {
  const { id } = await kitbag.ask('POST', '/chats', { title: 'A test' });
  await kitbag.open(page, `/chats/${id}`);
  await expect(page.getByRole('heading', { level: 1, name: 'A test' })).toBeVisible();
  return `/chats/${id}`;
}

/** Chooses a tool in the composer, by keys alone. */
async function choose(page: Page, words: string): Promise<Locator> {
  await page.getByRole('tab', { name: 'Run a tool' }).click();
  await page.getByRole('combobox', { name: 'Tool to run' }).fill(words);
  await expect(page.getByRole('option')).toHaveCount(1);
  await page.keyboard.press('Enter');
  return page.getByRole('region', { name: 'What comes next' });
}

const field = (within: Page | Locator, name: string) => within.getByRole('textbox', { name, exact: true });
const card = (page: Page, name: string) => page.getByRole('article', { name: new RegExp(`^Call of ${name}`) });
const files = async (kitbag: Kitbag, chat: string) =>
  (await kitbag.ask<{ items: { path: string }[] }>('GET', `${chat}/workspace/files`)).items.map(({ path }) => path);

test('from nothing to a tool that was run by form, in a chat that is renamed, found and deleted', async ({
  kitbag,
  page,
}) => {
  await kitbag.install(appBuilder());
  await kitbag.open(page, '/chats');
  await expect(page.getByRole('heading', { name: 'No chats yet' })).toBeVisible();
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await expect(page.getByRole('heading', { name: 'Nothing has been said yet' })).toBeVisible();

  const form = await choose(page, 'app-builder write');
  await form.getByRole('button', { name: 'Run' }).click();
  // What is wrong is told at the field that it is about.
  await expect(field(form, 'path')).toHaveAccessibleDescription(/is missing/);
  await field(form, 'path').fill('notes/hello.txt');
  await field(form, 'content').fill('hello from a form\nwith two lines\n');
  await page.keyboard.press('Control+Enter');
  await expect(card(page, 'Write File: Done')).toContainText(/written|hello from a form/);
  const chat = new URL(page.url()).pathname;
  expect(await files(kitbag, chat)).toEqual(['notes/hello.txt']);

  await page.getByRole('button', { name: 'Untitled chat' }).click();
  await page.getByRole('textbox', { name: 'Title' }).fill('Notes of mine');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1, name: 'Notes of mine' })).toBeVisible();
  await page.reload();
  await expect(card(page, 'Write File: Done')).toBeVisible();

  await kitbag.ask('POST', '/chats', { title: 'Something else' });
  await page.getByRole('link', { name: 'Chats' }).first().click();
  const list = page.getByRole('list', { name: 'Chats' });
  await expect(list.getByRole('listitem')).toHaveCount(2);
  await page.getByLabel('Search by title').fill('NOTES');
  await expect(list.getByRole('listitem')).toHaveCount(1);
  await list.getByRole('button', { name: 'Delete Notes of mine' }).click();
  await expect(page.getByRole('heading', { name: 'No chat has this in its title' })).toBeVisible();
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(list.getByRole('listitem')).toHaveCount(1);
  await list.getByRole('button', { name: 'Delete Notes of mine' }).click();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  await expect.poll(async () => (await kitbag.ask('GET', '/chats')).items.length).toBe(1);
});

test('a call that asks first shows what would run; it runs with changed arguments, or not at all', async ({
  kitbag,
  page,
}) => {
  await kitbag.install(demo());
  const chat = await open(kitbag, page);
  let form = await choose(page, 'demo:append');
  await field(form, 'path').fill('list.txt');
  await field(form, 'line').fill('as it was asked');
  await form.getByRole('button', { name: 'Run' }).click();
  const waiting = card(page, 'Append: Waits for a yes');
  await expect(waiting).toContainText('Python, in the sandbox');
  await expect(waiting).toContainText('Demo 1.2.0, trusted');
  await expect(waiting).toContainText('leave processes running');
  await expect(waiting.locator('pre')).toHaveText(/"line": "as it was asked"/);
  await expect(waiting).toContainText(/\d (min|s).* left/);
  expect(await files(kitbag, chat)).toEqual([]);
  // A character that turns texts round cannot hide in what is approved.
  await field(waiting, 'line').fill('as it was ap\u202eproved');
  await expect(waiting.locator('pre')).toHaveText(/ap\\u202eproved/);
  await field(waiting, 'line').fill('as it was approved');
  await waiting.getByRole('button', { name: 'Approve with these arguments' }).click();
  await expect(card(page, 'Append: Done')).toContainText('as it was approved');
  const text = await kitbag.ask('GET', `${chat}/workspace/files/list.txt`);
  expect(text).toBe('as it was approved\n');

  form = await choose(page, 'demo:append');
  await field(form, 'path').fill('list.txt');
  await field(form, 'line').fill('never');
  await form.getByRole('button', { name: 'Run' }).click();
  // What is typed in a field of the card is no answer; with the card itself in focus it is.
  await field(waiting, 'line').press('n');
  await expect(waiting).toBeVisible();
  await waiting.focus();
  await page.keyboard.press('n');
  const denied = card(page, 'Append: Denied');
  await expect(denied).toBeVisible();
  await expect(denied.getByText('Changes in the workspace')).toHaveCount(0);
  expect(await kitbag.ask('GET', `${chat}/workspace/files/list.txt`)).toBe('as it was approved\n');
  const { items } = await kitbag.ask('GET', `${chat}/tool-calls`);
  expect(items.map((call: any) => [call.status, call.error?.code, call.result === null])).toEqual([
    ['success', undefined, false],
    ['error', 'DENIED', true],
  ]);
});

test('a call says how far it is and what it does, and is cancelled; one fails and says why, one leaves a process', async ({
  kitbag,
  page,
}) => {
  await kitbag.install(demo());
  const chat = await open(kitbag, page);
  const form = await choose(page, 'demo:wait');
  await form.getByRole('spinbutton', { name: 'steps' }).fill('4');
  await form.getByRole('button', { name: 'Run' }).click();
  const running = card(page, 'Wait: Running');
  await expect(running.getByRole('progressbar')).toHaveAttribute('value', '0.8');
  await expect(running).toContainText('step 4');
  await expect(running.getByRole('log')).toContainText('at step 1');
  await running.getByRole('button', { name: 'Cancel' }).click();
  await expect(card(page, 'Wait: Cancelled')).toBeVisible();
  expect((await kitbag.ask('GET', `${chat}/tool-calls`)).items[0].error.code).toBe('CANCELLED');

  await (await choose(page, 'demo:fail')).getByRole('button', { name: 'Run' }).click();
  const failed = card(page, 'Fail: Failed');
  await expect(failed).toContainText('TOOL_FAILED');
  await expect(failed).toContainText('this never works');
  // What it leaves running is seen, and stopped.
  await (await choose(page, 'demo:leave')).getByRole('button', { name: 'Run' }).click();
  const left = page.getByRole('region', { name: 'Still running' });
  await expect(left).toContainText('sleep 3600');
  await left.getByRole('button', { name: 'Stop' }).click();
  await expect(left).toHaveCount(0);
  expect((await kitbag.ask('GET', `${chat}/processes`)).items).toEqual([]);
  // What somebody else asks for is seen too.
  await kitbag.ask('POST', `${chat}/tool-calls`, { toolId: 'list_files', args: {} });
  await expect(card(page, 'List Files: Done')).toBeVisible();
});

test('a call is made again as a branch, and each branch has its own workspace', async ({ kitbag, page }) => {
  await kitbag.install(appBuilder());
  const chat = await open(kitbag, page);
  await field(page, 'Message').fill('Write something, please.');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('article', { name: 'Message of You' })).toContainText('Write something, please.');
  const form = await choose(page, 'app-builder write');
  await field(form, 'path').fill('one.txt');
  await field(form, 'content').fill('1');
  await form.getByRole('button', { name: 'Run' }).click();
  const done = card(page, 'Write File: Done');
  await expect(done).toContainText('one.txt');
  expect(await files(kitbag, chat)).toEqual(['one.txt']);

  await done.getByRole('button', { name: 'Change and run again' }).click();
  await field(done, 'path').fill('two.txt');
  await done.getByRole('button', { name: 'Run as a branch' }).click();
  await expect(done.getByRole('group', { name: 'Branches' })).toContainText('2 / 2');
  await expect(done).toContainText('two.txt');
  // It began where the first one did: the other file is not there.
  await expect.poll(() => files(kitbag, chat)).toEqual(['two.txt']);

  await done.getByRole('button', { name: 'The branch before' }).click();
  await expect(done.getByRole('group', { name: 'Branches' })).toContainText('1 / 2');
  await expect(done).toContainText('one.txt');
  expect(await files(kitbag, chat)).toEqual(['one.txt']);

  await done.getByRole('button', { name: 'Run again as a branch' }).click();
  await expect(done.getByRole('group', { name: 'Branches' })).toContainText('3 / 3');
  await page.getByRole('button', { name: 'Branches', exact: true }).click();
  const map = page.getByRole('complementary', { name: 'Branches' });
  await expect(map.getByRole('listitem')).toHaveCount(4);
  await map.getByRole('button', { name: 'write_file' }).nth(1).click();
  await expect(done.getByRole('group', { name: 'Branches' })).toContainText('2 / 3');
  expect(await files(kitbag, chat)).toEqual(['two.txt']);
});

test('a call at the very top is made again beside it', async ({ kitbag, page }) => {
  const chat = await open(kitbag, page);
  await kitbag.ask('POST', `${chat}/tool-calls`, { toolId: 'write_file', args: { path: 'top.txt', content: 'x' } });
  const done = card(page, 'Write File: Done');
  await expect(done).toBeVisible();
  await done.getByRole('button', { name: 'Change and run again' }).click();
  await field(done, 'path').fill('beside.txt');
  await done.getByRole('button', { name: 'Run as a branch' }).click();
  await expect(done.getByRole('group', { name: 'Branches' })).toContainText('2 / 2');
  await expect.poll(() => files(kitbag, chat)).toEqual(['beside.txt']);
});

test('messages are written by hand, and changed as branches', async ({ kitbag, page }) => {
  await open(kitbag, page);
  await field(page, 'Message').fill('What is a kitbag?');
  await page.getByRole('button', { name: 'Add the message' }).click();
  await page.getByLabel('From whom').selectOption('Assistant');
  await field(page, 'Message').fill('A bag for kit.');
  await page.keyboard.press('Enter');
  const answer = page.getByRole('article', { name: 'Message of Assistant' });
  await expect(answer).toContainText('A bag for kit.');
  await answer.getByRole('button', { name: 'Edit as a branch' }).click();
  await field(answer, 'The message, changed').fill('A bag with tools in it.');
  await page.keyboard.press('Control+Enter');
  await expect(answer).toContainText('A bag with tools in it.');
  await expect(answer).toContainText('2 / 2');
  await answer.getByRole('button', { name: 'The branch before' }).click();
  await expect(answer).toContainText('A bag for kit.');

  // Standing above, what comes next is one more branch.
  await page.getByRole('article', { name: 'Message of You' }).getByRole('button', { name: 'Go on from here' }).click();
  await expect(answer).toHaveCount(0);
  await expect(page.getByText('2 branches go on below')).toBeVisible();
  await field(page, 'Message').fill('No idea.');
  await page.keyboard.press('Enter');
  await expect(answer).toContainText('3 / 3');
});

test('what somebody else says and makes is seen at once', async ({ kitbag, page }) => {
  const chat = await kitbag.ask('POST', '/chats', { title: 'Ours' });
  await kitbag.open(page, `/chats/${chat.id}`);
  await expect(page.getByText('Nothing has been said yet')).toBeVisible();
  await kitbag.ask('POST', `/chats/${chat.id}/messages`, { role: 'user', content: 'Hello from elsewhere' });
  await expect(page.getByText('Hello from elsewhere')).toBeVisible();
  await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link', { name: 'Chats' }).click();
  await expect(page.getByRole('link', { name: 'Ours' })).toBeVisible();
  await kitbag.ask('POST', '/chats', { title: 'Theirs' });
  await expect(page.getByRole('link', { name: 'Theirs' })).toBeVisible();
  await kitbag.ask('DELETE', `/chats/${chat.id}`);
  await expect(page.getByRole('link', { name: 'Ours' })).toHaveCount(0);
});
