// Tools: found among thousands, looked at, tried by form, turned on and off for everybody and for one chat.
import { type Locator, type Page } from '@playwright/test';
import { join } from 'node:path';
import { demo } from './demo.ts';
import { expect, test } from './kit.ts';

const MANY = join(import.meta.dirname, 'fixtures/many-tools.mjs');
const rows = (page: Page) => page.getByRole('list', { name: 'Tools' }).getByRole('listitem');
const tick = (page: Page, name: string | RegExp) => page.getByRole('checkbox', { name });
const text = (within: Page | Locator, name: string) => within.getByRole('textbox', { name, exact: true });

test('a picker of two thousand tools holds few rows, and finds and turns off whole groups', async ({
  kitbag,
  page,
}) => {
  // A debug build takes its time with so many.
  test.slow();
  const server = { name: 'Many', command: process.execPath, args: [MANY, '2000'], requiresConfirmation: false };
  const { id } = await kitbag.ask('POST', '/mcp-servers', server);
  await kitbag.ask('POST', `/mcp-servers/${encodeURIComponent(id)}/test`);
  await kitbag.open(page, '/tools');
  await expect(page.getByRole('tab', { name: 'All 2006' })).toBeVisible();
  await expect(rows(page).first()).toBeVisible();
  expect(await rows(page).count()).toBeLessThan(60);

  await page.getByRole('list', { name: 'Tools' }).evaluate((box) => (box.scrollTop = box.scrollHeight));
  await expect(page.getByRole('link', { name: /tool_2000/ })).toBeInViewport();
  expect(await rows(page).count()).toBeLessThan(60);

  await page.getByLabel('Search tools').fill('counts sevens');
  await expect(page.getByText('286 found')).toBeVisible();
  expect(await rows(page).count()).toBeLessThan(60);
  await page.getByLabel('Search tools').fill('tool_0777');
  await expect(rows(page)).toHaveCount(2);

  // One of the group is turned off: the group is on in part.
  await tick(page, /^Use tool_0777/).uncheck();
  const group = tick(page, 'Use all of Many');
  await expect(group).toHaveJSProperty('indeterminate', true);
  await expect.poll(async () => (await kitbag.ask('GET', `/tools/mcp:${id}:tool_0777`)).enabled).toBe(false);
  await page.getByLabel('Search tools').fill('');
  await page.getByRole('tab', { name: 'Out 1' }).click();
  await expect(page.getByRole('link', { name: /tool_0777/ })).toBeVisible();
  await page.getByRole('tab', { name: 'All 2006' }).click();
  await page.getByRole('list', { name: 'Tools' }).evaluate((box) => (box.scrollTop = 0));
  await group.check();
  await group.uncheck();
  await expect
    .poll(async () => (await kitbag.ask('GET', `/mcp-servers/${encodeURIComponent(id)}`)).enabled)
    .toBe(false);
  await expect(page.getByRole('tab', { name: 'In 6' })).toBeVisible();
  // Turned on again as a whole, without a word about each of its tools.
  await group.check();
  await expect(page.getByRole('tab', { name: 'In 2006' })).toBeVisible();
  await expect.poll(async () => (await kitbag.ask('GET', `/tools/mcp:${id}:tool_1234`)).available).toBe(true);
  const { items } = await kitbag.ask('GET', '/toolsets/many/overrides');
  expect(items.map((one: any) => one.key)).toEqual(['many:tool_0777']);
});

test('a tool is tried by a form that knows all of its schema', async ({ kitbag, page }) => {
  await kitbag.install(demo());
  await kitbag.open(page, '/tools');
  await page.getByLabel('Search tools').fill('all sorts of arguments');
  await page.getByRole('link', { name: /^Everything/ }).click();
  await expect(page.getByText('demo__everything')).toBeVisible();
  await expect(page.getByText(/about \d+ tokens/)).toBeVisible();
  await expect(page.getByRole('link', { name: 'Overrides' })).toHaveAttribute(
    'href',
    '/toolsets/demo?tool=demo%3Aeverything',
  );

  const form = page.locator('form');
  const run = form.getByRole('button', { name: 'Run' });
  await text(form, 'name').fill('x');
  await run.click();
  await expect(text(form, 'name')).toHaveAccessibleDescription(/shorter than 2/);
  await expect(form.getByRole('spinbutton', { name: 'size' })).toHaveAccessibleDescription(/is missing/);
  await expect(form.getByRole('group', { name: 'where' }).getByRole('spinbutton', { name: 'x' })).toHaveAttribute(
    'aria-invalid',
    'true',
  );

  await text(form, 'name').fill('Ada');
  await form.getByRole('spinbutton', { name: 'size' }).fill('7');
  await form.getByLabel('kind').selectOption('large');
  await form.getByRole('spinbutton', { name: 'x', exact: true }).fill('1.5');
  await form.getByRole('button', { name: /more that can be set/ }).click();
  await form.getByRole('switch', { name: 'loud' }).click();
  await form.getByRole('switch', { name: 'loud' }).click();
  await form.getByLabel('day').fill('2026-02-28');
  const tags = form.getByRole('group', { name: 'tags' });
  for (const tag of ['first', 'second', 'third']) {
    await tags.getByRole('button', { name: 'Add to tags' }).click();
    await tags.getByRole('textbox').last().fill(tag);
  }
  await expect(tags.getByRole('button', { name: 'Add to tags' })).toHaveCount(0);
  await tags.getByRole('button', { name: 'Move 3 up' }).click();
  await tags.getByRole('button', { name: 'Remove 1' }).click();
  await form.getByRole('checkbox', { name: 'blue' }).check();
  await form.getByRole('checkbox', { name: 'red' }).check();
  const labels = form.getByRole('group', { name: 'labels' });
  await labels.getByRole('button', { name: 'Add labels' }).click();
  await labels.getByRole('button', { name: 'Add a field' }).click();
  await labels.getByLabel('Name').fill('team');
  await text(labels, 'team').fill('blue');
  await form.getByLabel('target').selectOption('An address');
  await form.getByRole('textbox', { name: 'url' }).fill('https://example.org/');
  await text(form, 'anything').fill('[1, {"deep": null}]');

  // The same as JSON, changed there, and back.
  await form.getByRole('button', { name: 'JSON' }).click();
  const json = form.getByRole('textbox', { name: 'Arguments as JSON' });
  const expected = {
    name: 'Ada',
    size: 7,
    kind: 'large',
    version: 2,
    loud: false,
    day: '2026-02-28',
    tags: ['third', 'second'],
    colours: ['red', 'blue'],
    where: { x: 1.5 },
    labels: { team: 'blue' },
    target: { url: 'https://example.org/' },
    anything: [1, { deep: null }],
  };
  await json.fill(JSON.stringify({ ...expected, name: 'Grace' }));
  await form.getByRole('button', { name: 'Form', exact: true }).click();
  await expect(text(form, 'name')).toHaveValue('Grace');
  await run.click();
  await expect(page.getByRole('article', { name: 'Call of Everything: Done' })).toContainText('Grace');
  const chat = (await kitbag.ask('GET', '/chats')).items[0];
  expect(chat.title).toBe('Playground');
  const { items } = await kitbag.ask('GET', `/chats/${chat.id}/tool-calls`);
  expect(items.map((call: any) => call.result)).toEqual([{ ...expected, name: 'Grace' }]);

  // The next one is tried in the same chat, where both can be looked at.
  await run.click();
  await expect(page.getByRole('article', { name: 'Call of Everything: Done' })).toHaveCount(2);
  await page.getByRole('link', { name: 'Open the chat it runs in' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Playground' })).toBeVisible();
  await expect(page.getByRole('article', { name: 'Call of Everything: Done' })).toHaveCount(2);
});

test('a chat is given fewer tools, and it is said why each is in or out', async ({ kitbag, page }) => {
  await kitbag.install(demo());
  const { id } = await kitbag.ask('POST', '/chats', { title: 'Careful' });
  const selectors = async () => (await kitbag.ask('GET', `/chats/${id}`)).toolSelectors;
  const available = async () =>
    (await kitbag.ask('GET', `/available-tools?chat=${id}`)).items.map((tool: any) => tool.id);
  await kitbag.open(page, `/chats/${id}`);
  await page.getByRole('link', { name: 'All tools' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'Tools of Careful' })).toBeVisible();
  await expect(page.getByRole('tab', { name: 'In 11' })).toBeVisible();

  await tick(page, /\(demo:fail\)/).uncheck();
  await expect.poll(selectors).toEqual(['-demo:fail']);
  await expect(page.getByText('taken away by -demo:fail')).toBeVisible();
  await expect(tick(page, 'Use all of Demo')).toHaveJSProperty('indeterminate', true);
  await tick(page, 'Use all of Built in').uncheck();
  await expect.poll(selectors).toEqual(['-demo:fail', '-toolset:builtin']);
  await expect.poll(available).toEqual(['demo:wait', 'demo:append', 'demo:leave', 'demo:everything']);
  // One of what was taken away as a whole comes back alone.
  await tick(page, /\(read_file\)/).check();
  await expect.poll(available).toEqual(['read_file', 'demo:wait', 'demo:append', 'demo:leave', 'demo:everything']);

  await page.getByRole('button', { name: 'Use none' }).click();
  await expect(page.getByRole('tab', { name: 'In 0' })).toBeVisible();
  await expect.poll(available).toEqual([]);
  await tick(page, 'Use all of Demo').check();
  await expect.poll(selectors).toEqual(['toolset:demo']);
  await expect(page.getByText('not among those that the chat may use').first()).toBeVisible();
  await tick(page, 'Use all of Demo').uncheck();
  await expect.poll(available).toEqual([]);

  await page.getByRole('button', { name: 'Edit as text' }).click();
  await page.getByLabel('One a line').fill('demo:wait\n*_files\n-search_*');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByRole('tab', { name: 'In 2' })).toBeVisible();
  await expect.poll(available).toEqual(['list_files', 'demo:wait']);

  // The chat itself offers these alone.
  await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link', { name: 'Careful' }).click();
  await page.getByRole('tab', { name: 'Run a tool' }).click();
  await page.getByRole('combobox', { name: 'Tool to run' }).click();
  await expect(page.getByRole('option')).toHaveCount(2);
});
