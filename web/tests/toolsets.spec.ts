// Toolsets in the page: brought in, looked at, installed, changed, turned off and taken away again.
import type { Locator, Page } from '@playwright/test';
import { zipSync } from 'fflate';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { plan } from '../src/render/plan.ts';
import { expect, type Kitbag, read, ROOT, test } from './kit.ts';

const FILES = ['toolset.yaml', 'tools/files.py', 'tools/shell.py'];

/** The example toolset, with another manifest if one is given. */
function appBuilder(change: (manifest: string) => string = (manifest) => manifest): Uint8Array {
  const files = Object.fromEntries(FILES.map((path) => [path, new Uint8Array(read(`examples/app-builder/${path}`))]));
  const manifest = change(new TextDecoder().decode(files['toolset.yaml']));
  return zipSync({ ...files, 'toolset.yaml': new TextEncoder().encode(manifest) });
}

async function installed(kitbag: Kitbag): Promise<string[]> {
  return (await kitbag.ask('GET', '/toolsets')).items.map((toolset: { id: string }) => toolset.id);
}

/** Chooses a file as somebody does who pressed the button. */
async function choose(page: Page, name: string, bytes: Uint8Array | string): Promise<Locator> {
  await page.getByRole('button', { name: 'Import', exact: true }).click();
  const chooser = page.waitForEvent('filechooser');
  await page.getByRole('button', { name: 'Choose a file' }).click();
  await (await chooser).setFiles({ name, mimeType: 'application/octet-stream', buffer: Buffer.from(bytes) });
  return page.getByRole('dialog');
}

async function drop(page: Page, name: string, bytes: Uint8Array): Promise<void> {
  const transfer = await page.evaluateHandle(
    ({ name, bytes }) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([new Uint8Array(bytes)], name));
      return transfer;
    },
    { name, bytes: [...bytes] },
  );
  await page.dispatchEvent('main', 'dragenter', { dataTransfer: transfer });
  await expect(page.getByText('Drop it to look at it')).toBeVisible();
  await page.dispatchEvent('main', 'drop', { dataTransfer: transfer });
}

test('a ZIP that is dropped is looked at, installed and listed', async ({ kitbag, page }) => {
  await kitbag.open(page, '/toolsets');
  await expect(page.getByRole('heading', { name: 'No toolset is installed yet' })).toBeVisible();
  await drop(page, 'app.zip', appBuilder());
  const dialog = page.getByRole('dialog', { name: 'Look before you install' });
  await expect(dialog.getByText('3 tools · 3 files')).toBeVisible();
  await expect(dialog.getByRole('region', { name: 'What it contains' })).toContainText('run_command');
  await dialog.getByText('Read its 3 files').click();
  await dialog.getByRole('button', { name: /tools\/shell\.py/ }).click();
  await expect(dialog.getByLabel('tools/shell.py')).toBeVisible();
  expect(await installed(kitbag)).toEqual([]);

  await dialog.getByRole('button', { name: 'Install', exact: true }).click();
  const done = page.getByRole('dialog', { name: 'Installed' });
  await expect(done).toContainText('App Builder 1.0.0 is installed');
  await done.getByRole('button', { name: 'Open it' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/app-builder`);
  await expect(page.getByRole('listitem', { name: 'Run Command' })).toContainText('Asks first');
  await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link').click();
  await expect(page.getByRole('listitem', { name: 'App Builder' })).toContainText('3 tools');
  expect(await installed(kitbag)).toEqual(['app-builder']);

  // A newer one is compared with what is there.
  const newer = appBuilder((manifest) =>
    manifest
      .replace('"1.0.0"', '"1.1.0"')
      .replace('id: read_file', 'id: read_text')
      .replace('Write content', 'Puts content'),
  );
  const review = await choose(page, 'app.zip', newer);
  await expect(review.getByText('Upgrade from 1.0.0')).toBeVisible();
  const changes = review.getByRole('region', { name: 'What would change' });
  await expect(changes.getByText('New: read_text')).toBeVisible();
  await expect(changes.getByText('Changed: write_file')).toBeVisible();
  await expect(changes.getByText('Gone: read_file')).toBeVisible();
  await review.getByRole('button', { name: 'Cancel' }).click();
  expect((await kitbag.ask('GET', '/toolsets/app-builder')).version).toBe('1.0.0');
});

test('what cannot be installed says why and where, and nothing is installed', async ({ kitbag, page }) => {
  await kitbag.open(page, '/toolsets');
  let dialog = await choose(page, 'notes.zip', 'this is no archive');
  await expect(dialog).toContainText('This cannot be installed');
  await expect(dialog.getByRole('list', { name: 'Problems' })).toContainText('this is not a ZIP archive');
  await page.keyboard.press('Escape');

  dialog = await choose(
    page,
    'app.zip',
    appBuilder((manifest) => manifest.replace('type: code', 'type: codex')),
  );
  const problems = dialog.getByRole('list', { name: 'Problems' });
  await expect(problems).toContainText(/toolset\.yaml:\d+:\d+/);
  await expect(problems.locator('pre')).toContainText('type: codex');
  expect(await installed(kitbag)).toEqual([]);
});

test('a folder is packed without what tools left in it', async ({ kitbag, page }) => {
  const folder = join(kitbag.data, 'my-tools');
  cpSync(join(ROOT, 'examples/app-builder'), folder, { recursive: true });
  mkdirSync(join(folder, 'tools/__pycache__'), { recursive: true });
  writeFileSync(join(folder, 'tools/__pycache__/files.cpython-313.pyc'), 'x');
  mkdirSync(join(folder, 'node_modules/left'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/left/index.js'), 'x');
  await kitbag.open(page, '/toolsets?import=1');
  await page.locator('input[data-choose="folder"]').setInputFiles(folder);
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('3 tools · 3 files')).toBeVisible();
  await dialog.getByLabel('Build what its Python tools need at once').uncheck();
  await dialog.getByRole('button', { name: 'Install', exact: true }).click();
  await expect(dialog).toContainText('is installed');
  const toolset = await kitbag.ask('GET', '/toolsets/app-builder');
  expect(toolset.files.map((file: { path: string }) => file.path).sort()).toEqual([...FILES].sort());
  expect([toolset.sourceType, toolset.sourceRef]).toEqual(['local', 'my-tools']);
});

test('the configuration of another program comes without its secrets, and starts nothing before it is trusted', async ({
  kitbag,
  page,
}) => {
  await kitbag.open(page, '/toolsets?import=1');
  const config = { mcpServers: { notes: { command: 'false', args: ['--now'], env: { API_KEY: 'sk-1234567890' } } } };
  await page.getByLabel('Or paste an address or a configuration').fill(JSON.stringify(config));
  await page.getByRole('button', { name: 'Look at it' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('list', { name: 'Problems' })).toContainText('has its value written out');
  await expect(dialog).not.toContainText('sk-1234567890');
  await dialog.getByRole('button', { name: 'Leave the values out' }).click();
  const runs = dialog.getByRole('region', { name: 'What it would run' });
  await expect(runs).toContainText('false --now');
  await expect(runs).toContainText('API_KEY=${ENV:API_KEY}');
  await dialog.getByLabel('Call it').fill('desk');
  await dialog.getByLabel('Call it').press('Enter');
  await expect(dialog.locator('header code').last()).toHaveText('desk');
  await expect(dialog.getByRole('radio', { name: /Not yet/ })).toBeChecked();
  await dialog.getByRole('button', { name: 'Install', exact: true }).click();
  await dialog.getByRole('button', { name: 'Open it' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/desk`);
  expect((await kitbag.ask('GET', '/mcp-servers/desk~notes')).status).toBe('needs_trust');

  await page.getByRole('button', { name: 'Look and trust' }).click();
  await expect(dialog).toContainText('false --now');
  await dialog.getByRole('button', { name: 'Trust it' }).click();
  await expect(page.getByText('Trusted', { exact: true })).toBeVisible();
  expect((await kitbag.ask('GET', '/toolsets/desk')).trusted).toBe(true);
});

test('a toolset is turned off and on, and what fails is taken back', async ({ kitbag, page }) => {
  await kitbag.install(appBuilder());
  await kitbag.open(page, '/toolsets');
  const enabled = async () => (await kitbag.ask('GET', '/toolsets/app-builder')).enabled;
  const toggle = page.getByRole('switch', { name: /App Builder/ });
  await toggle.click();
  await expect(toggle).not.toBeChecked();
  await expect.poll(enabled).toBe(false);
  await toggle.click();
  await expect(toggle).toBeChecked();
  await expect.poll(enabled).toBe(true);

  // What was done before is over: nothing is asked for anew but by what fails.
  await page.reload();
  await expect(toggle).toBeChecked();
  await page.route('**/enable', (route) =>
    route.fulfill({ status: 503, json: { code: 'UNAVAILABLE', message: 'the database does not answer' } }),
  );
  await toggle.click();
  await expect(page.getByText('the database does not answer')).toBeVisible();
  await expect(toggle).toBeChecked();
  expect(await enabled()).toBe(true);
});

test('an override is changed, seen, and cleared again', async ({ kitbag, page }) => {
  await kitbag.install(appBuilder());
  const tool = () => kitbag.ask('GET', '/tools/app-builder:write_file');
  await kitbag.open(page, '/toolsets/app-builder?tool=app-builder%3Awrite_file');
  const dialog = page.getByRole('dialog');
  const source = (field: string) => dialog.locator(`[data-field="${field}"] .badge`);
  await expect(source('Name')).toHaveText('The tool: its manifest or code');
  await expect(source('Renderer')).toHaveText('The toolset’s manifest');

  // Whoever leaves by mistake can come back to what they wrote.
  await dialog.getByLabel('Name', { exact: true }).fill('Save a file');
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await page.getByRole('button', { name: 'Go on editing' }).click();
  await expect(dialog.getByLabel('Name', { exact: true })).toHaveValue('Save a file');
  await expect(source('Name')).toHaveText('Changed, not saved yet');

  await dialog.getByLabel('Before a call').selectOption('Ask first');
  await dialog.getByLabel('Renderer', { exact: true }).selectOption('Code');
  await expect(dialog.getByLabel('File', { exact: true })).toHaveValue('$args.path');
  await dialog.getByLabel('Language').fill('rust');
  // The preview follows what is written, and says what leads nowhere.
  await dialog.getByText('The plan', { exact: true }).click();
  await expect(dialog.locator('[data-plan]')).toContainText('"language": "rust"');
  await dialog.getByLabel('File', { exact: true }).fill('$args.nowhere');
  await expect(dialog.getByRole('region', { name: 'Preview' })).toContainText('$args.nowhere leads to nothing');
  await dialog.getByLabel('File', { exact: true }).fill('out/$args.path');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(source('Name')).toHaveText('Your override');
  expect(await tool()).toMatchObject({
    name: 'Save a file',
    requiresConfirmation: true,
    rendererConfig: { file: 'out/$args.path', language: 'rust', editable: true },
    origins: { name: { from: 'user' }, renderer: { from: 'user' } },
  });

  // In the list of tools too, which is live.
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/app-builder`);
  await expect(page.getByText('What you changed is not saved.')).toHaveCount(0);
  const row = page.getByRole('listitem', { name: 'Save a file' });
  await expect(row).toContainText('Asks first');
  await expect(row).toContainText('Changed by you');

  await row.getByRole('button', { name: /Change/ }).click();
  for (const field of ['name', 'before a call', 'renderer'])
    await dialog.getByRole('button', { name: `Clear ${field}` }).click();
  await expect(source('Name')).toHaveText('Cleared once it is saved');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(source('Name')).toHaveText('The tool: its manifest or code');
  expect(await tool()).toMatchObject({
    name: 'Write File',
    requiresConfirmation: false,
    rendererConfig: { file: '$args.path' },
  });
  const { items } = await kitbag.ask('GET', '/toolsets/app-builder/overrides');
  expect(items.filter((over: { origin: string }) => over.origin === 'user')).toEqual([]);
});

test('the preview makes the plan that the server makes', async ({ kitbag }) => {
  const args = { path: 'notes/a.md', content: '$args.path and $$' };
  const config = {
    content: 'Saved $args.path ($return.size bytes).',
    data: {
      whole: '$return',
      typed: ['$return.created', '$return.size', 'plain', 7, null],
      ended: '${args.path}.bak and $args.path.',
      again: '$args.content',
      kept: '$$return costs $5, $unknown, ${unknown}, $workspace.bak',
    },
  };
  await kitbag.ask('PUT', '/toolsets/builtin/overrides/write_file', { renderer: 'html', rendererConfig: config });
  const chat = await kitbag.ask('POST', '/chats', {});
  const call = await kitbag.ask('POST', `/chats/${chat.id}/tool-calls`, { toolId: 'write_file', args });
  const { url: _, ...made } = call.renderPlan.config;
  expect(plan('html', config, { args, result: call.result })).toEqual({ config: made });
});

test('a pattern overrides several tools, and is taken back', async ({ kitbag, page }) => {
  await kitbag.install(appBuilder());
  await kitbag.open(page, '/toolsets/app-builder?tab=overrides');
  const dialog = page.getByRole('dialog');
  await page.getByLabel('Override several tools at once').fill('*_file');
  await page.getByRole('button', { name: 'Go on' }).click();
  await expect(dialog).toContainText('It means Write File, Read File.');
  await dialog.getByLabel('Available').selectOption('Off');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByRole('region', { name: 'Yours' })).toContainText('app-builder:*_file');
  const off = async () => {
    const { tools } = await kitbag.ask('GET', '/toolsets/app-builder');
    return tools.filter((tool: { enabled: boolean }) => !tool.enabled).map((tool: { id: string }) => tool.id);
  };
  expect(await off()).toEqual(['app-builder:write_file', 'app-builder:read_file']);

  // One of them is turned on nevertheless.
  await page.getByRole('tab', { name: /Tools/ }).click();
  await page.getByRole('switch', { name: /Read File/ }).click();
  await expect.poll(off).toEqual(['app-builder:write_file']);
  await page.getByRole('tab', { name: /Overrides/ }).click();
  await page.getByRole('button', { name: 'Take back app-builder:*_file' }).click();
  await expect(page.getByRole('button', { name: 'Change app-builder:*_file' })).toBeHidden();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).last().click();
  await expect.poll(off).toEqual([]);
});

test('a built-in tool is turned off like any other', async ({ kitbag, page }) => {
  await kitbag.open(page, '/toolsets');
  await page.getByRole('link', { name: 'Built-in tools' }).click();
  const enabled = async () => (await kitbag.ask('GET', '/tools/write_file')).enabled;
  const toggle = page.getByRole('switch', { name: /^Write File/ });
  await toggle.click();
  await expect.poll(enabled).toBe(false);
  await expect(page.getByRole('listitem', { name: 'Write File' })).toContainText('Changed by you');
  await toggle.click();
  await expect.poll(enabled).toBe(true);
  expect((await kitbag.ask('GET', '/toolsets/builtin/overrides')).items).toEqual([]);
});

test('what is uninstalled comes back when that is undone', async ({ kitbag, page }) => {
  await kitbag.install(appBuilder());
  await kitbag.open(page, '/toolsets');
  const row = page.getByRole('listitem', { name: 'App Builder' });
  await row.getByRole('button', { name: 'Uninstall App Builder' }).click();
  await expect(row).toBeHidden();
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(row).toBeVisible();
  expect(await installed(kitbag)).toEqual(['app-builder']);

  const download = page.waitForEvent('download');
  await row.getByRole('link', { name: 'Export App Builder' }).click();
  expect((await download).suggestedFilename()).toBe('app-builder-v1.0.0.zip');

  await row.getByRole('link', { name: 'App Builder', exact: true }).click();
  await page.getByRole('button', { name: 'Uninstall App Builder' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets`);
  await expect(page.getByRole('heading', { name: 'No toolset is installed yet' })).toBeVisible();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  await expect.poll(() => installed(kitbag)).toEqual([]);
  await page.goto(`${kitbag.url}/toolsets/app-builder`);
  await expect(page.getByRole('heading', { name: 'There is no toolset “app-builder”' })).toBeVisible();
});

test('a folder that is dropped is packed, looked at and installed', async ({ kitbag, page }) => {
  await kitbag.open(page, '/toolsets');
  await expect(page.getByRole('heading', { name: 'No toolset is installed yet' })).toBeVisible();
  // What the browser itself does with a folder from outside; a made-up event has no folders.
  const browser = await page.context().newCDPSession(page);
  const data = { items: [], files: [join(ROOT, 'examples/app-builder')], dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
    await browser.send('Input.dispatchDragEvent', { type, x: 640, y: 400, data });
  const dialog = page.getByRole('dialog', { name: 'Look before you install' });
  await expect(dialog.getByText('3 tools · 3 files')).toBeVisible();
  await dialog.getByRole('button', { name: 'Install', exact: true }).click();
  await expect(page.getByRole('dialog', { name: 'Installed' })).toContainText('App Builder 1.0.0 is installed');
  expect(await installed(kitbag)).toEqual(['app-builder']);
});

test('what would run in containers is shown before anybody trusts it', async ({ kitbag, page }) => {
  const manifest = `id: shapes
name: Shapes
version: "1.0.0"
containers:
  - id: draw
    image: registry.example/draw:1
    command: [/bin/draw]
    env: {DRAW_KEY: "\${DRAW_KEY}"}
    permissions: {network: true}
    limits: {memory: 256m, pids: 64}
    tools:
      - {id: circle, command: [/bin/draw, circle], input_schema: {type: object}}
`;
  await kitbag.open(page, '/toolsets');
  const dialog = await choose(page, 'shapes.zip', zipSync({ 'toolset.yaml': new TextEncoder().encode(manifest) }));
  const planned = dialog.getByRole('region', { name: 'What its containers are' });
  for (const text of [
    'registry.example/draw:1',
    'circle starts /bin/draw circle',
    'DRAW_KEY',
    'Reaches the network',
    '256 MiB of memory, 64 processes',
  ])
    await expect(planned).toContainText(text);
  await dialog.getByRole('button', { name: 'Install', exact: true }).click();
  await dialog.getByRole('button', { name: 'Open it' }).click();
  await page.getByRole('tab', { name: /Containers/ }).click();
  const listed = page.getByRole('list', { name: 'Containers' });
  await expect(listed).toContainText('Not trusted yet');
  await expect(listed).toContainText('circle: /bin/draw circle');

  await page.getByRole('button', { name: 'Look and trust' }).click();
  await expect(dialog).toContainText('circle starts /bin/draw circle');
  const sent = page.waitForRequest((request) => request.url().endsWith('/toolsets/shapes/trust'));
  await dialog.getByRole('button', { name: 'Trust it' }).click();
  expect((await sent).postDataJSON()).toEqual({ images: { draw: null } });
  await expect(page.getByText('Trusted', { exact: true }).first()).toBeVisible();
});
