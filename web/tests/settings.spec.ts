import { expect, test } from './kit.ts';

test('an agent is connected: the text is made, gets a token of its own, and lets it in', async ({
  kitbag,
  page,
  context,
}) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: kitbag.url });
  await kitbag.ask('POST', '/mcp-servers', { id: 'files', command: 'nopx' });
  await kitbag.open(page, '/settings');
  const text = page.locator('pre').first();
  await expect(text).toContainText(`"url": "${kitbag.url}/mcp"`);
  await expect(text).toContainText('KITBAG_TOKEN');
  await page.getByLabel('Which tools').selectOption({ label: 'Only files' });
  await expect(text).toContainText(`${kitbag.url}/v1/orgs/local/toolsets/files/mcp`);
  await expect(page.getByText('kitbag mcp config claude-code --toolset files --install')).toBeVisible();
  await page.getByLabel('Which tools').selectOption({ label: 'Everything that is on' });
  await page.getByText('Codex', { exact: true }).click();
  await expect(text).toContainText('[mcp_servers.kitbag.http_headers]');

  await page.getByRole('button', { name: 'Make a token for Codex' }).click();
  await expect(text).not.toContainText('KITBAG_TOKEN');
  await page.getByRole('button', { name: 'Copy the configuration' }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const token = /Bearer ([^"]+)"/.exec(copied)![1]!;
  const asked = (path: string) =>
    fetch(`${kitbag.url}/v1/orgs/local${path}`, { headers: { authorization: `Bearer ${token}` } });
  expect((await asked('/tools')).status).toBe(200);
  expect((await asked('/tokens')).status, 'it manages nothing').toBe(403);

  // Claude Desktop starts a process, and needs none.
  await page.getByText('Claude Desktop', { exact: true }).click();
  await expect(text).toContainText('"stdio"');
  await expect(page.getByRole('button', { name: /Make a token/ })).toHaveCount(0);
});

test('tokens are made, shown once, ended, and brought back', async ({ kitbag, page }) => {
  await kitbag.open(page, '/settings?tab=tokens');
  const row = (name: string) =>
    page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) });
  await expect(row('Owner')).toContainText('manage');
  await expect(row('Owner').getByRole('button')).toHaveCount(0);
  for (const name of ['nightly run', 'my phone']) {
    await page.getByRole('button', { name: 'New token' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('What it is for').fill(name);
    await dialog.getByLabel('Ends').selectOption('in 90 days');
    await dialog.getByRole('button', { name: 'Make it' }).click();
    await expect(dialog.locator('pre')).toContainText('kitbag_local.');
    await dialog.getByRole('button', { name: 'I have it' }).click();
    await expect(row(name)).toContainText('in 3 mo.');
  }
  const count = async () => (await kitbag.ask('GET', '/tokens')).items.length as number;
  expect(await count()).toBe(3);

  await page.getByRole('button', { name: 'End nightly run' }).click();
  await expect(row('nightly run')).toHaveCount(0);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(row('nightly run')).toBeVisible();
  expect(await count()).toBe(3);

  await page.getByRole('button', { name: 'End my phone' }).click();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  await expect.poll(count).toBe(2);
  await expect(row('my phone')).toHaveCount(0);
});

test.describe('a server that was started with flags', () => {
  test.use({ flags: ['--tool-timeout', '17', '--disabled-tools', 'write_file'] });

  test('says where it is, what the machine offers, and what is allowed', async ({ kitbag, page }) => {
    await kitbag.open(page, '/settings?tab=server');
    await expect(page.getByText(kitbag.url, { exact: true })).toBeVisible();
    await expect(page.getByText('SQLite', { exact: true })).toBeVisible();
    await expect(page.getByRole('row', { name: /A tool may take/ })).toContainText('17 seconds');
    await expect(page.getByText('write_file', { exact: true })).toBeVisible();
    const sandbox = page.getByRole('region', { name: 'Sandbox' });
    const found = (await kitbag.ask('GET', '/server/checks')).checks as {
      name: string;
      status: string;
      found: string;
    }[];
    for (const { name, status } of found.filter(({ name }) => ['namespaces', 'landlock', 'seccomp'].includes(name))) {
      const line = sandbox.getByRole('listitem').filter({ hasText: name });
      await expect(line).toContainText(status === 'ok' ? 'there' : 'missing');
    }
    await expect(page.getByRole('heading', { name: /^Data folder: \d/ })).toBeVisible();
  });
});

test('the theme is kept', async ({ kitbag, page }) => {
  await kitbag.open(page, '/settings?tab=appearance');
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByText('Dark', { exact: true }).click();
  const dark = await ground();
  expect(dark).not.toBe(light);
  await page.reload();
  await expect(page.getByLabel('Dark')).toBeChecked();
  expect(await ground()).toBe(dark);
});

test('the start says what to do first, what waits and what is wrong', async ({ kitbag, page }) => {
  await kitbag.open(page);
  const step = (name: string) => page.getByRole('listitem').filter({ hasText: name });
  await expect(step('Add an MCP server')).not.toContainText('(done)');
  await expect(page.getByText('None yet.')).toBeVisible();
  await expect(page.getByRole('link', { name: 'Connect: Connect your agent' })).toHaveAttribute(
    'href',
    '/settings?tab=connect',
  );

  // All of it comes by itself.
  await kitbag.ask('POST', '/mcp-servers', { id: 'broken', command: '/nowhere/to/be/found', trust: true });
  await expect(step('Add an MCP server')).toContainText('(done)');
  await expect(page.getByRole('region', { name: 'MCP servers that want something' })).toContainText('broken');
  const chat = await kitbag.ask('POST', '/chats', { title: 'The bakery' });
  const body = { toolId: 'run_command', args: { command: 'echo hello' } };
  const call = await kitbag.ask('POST', `/chats/${chat.id}/tool-calls`, body);
  await expect(page.getByRole('region', { name: 'One call waits for you' })).toContainText('echo hello');
  const chats = page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: /^Chats/ });
  await expect(chats).toContainText('1 wait for a decision');
  await expect(page.getByRole('region', { name: 'Recent chats' })).toContainText('The bakery');
  await kitbag.ask('POST', `/chats/${chat.id}/tool-calls/${call.id}/decision`, { approve: false });
  await expect(chats).not.toContainText('decision');
  await expect(page.getByRole('region', { name: 'One call waits for you' })).toHaveCount(0);
});
