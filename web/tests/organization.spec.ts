import type { Page } from '@playwright/test';
import { demo } from './demo.ts';
import { expect, type Kitbag, test } from './kit.ts';
import { another, Person } from './people.ts';

const row = (page: Page, table: string, name: string) =>
  page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: name });

/** An organisation of three. */
async function acme(kitbag: Kitbag) {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const bob = await ada.brings('acme', 'bob@acme.example', 'admin', 'Bob');
  const cem = await ada.brings('acme', 'cem@acme.example', 'member', 'Cem');
  return { ada, bob, cem };
}

test('roles are given, and hold at once where somebody looks', async ({ kitbag, page, context, browser }) => {
  const { ada, cem } = await acme(kitbag);
  await ada.enter(context);
  await page.goto(`${kitbag.url}/organization`);
  await expect(page.getByRole('heading', { name: 'Acme' })).toBeVisible();
  // The only owner stays one.
  await expect(row(page, 'Members', 'ada@').getByRole('button', { name: 'Leave' })).toBeDisabled();
  await expect(page.getByLabel('Role of Ada')).toHaveCount(0);

  const theirs = await another(browser);
  await cem.enter(theirs.context());
  await theirs.goto(`${kitbag.url}/toolsets`);
  await expect(theirs.getByRole('heading', { name: 'Toolsets', exact: true })).toBeVisible();
  await expect(theirs.getByRole('button', { name: /^Import/ })).toHaveCount(0);
  await page.getByLabel('Role of Cem').selectOption('admin');
  await expect(theirs.getByRole('button', { name: /^Import/ }).first()).toBeVisible();
  await page.getByLabel('Role of Cem').selectOption('member');
  await expect(theirs.getByRole('button', { name: /^Import/ })).toHaveCount(0);

  await row(page, 'Members', 'cem@').getByRole('button', { name: 'Take Cem out' }).click();
  await page.getByRole('status').getByRole('button', { name: 'Undo' }).click();
  await expect(row(page, 'Members', 'cem@')).toBeVisible();
  await row(page, 'Members', 'cem@').getByRole('button', { name: 'Take Cem out' }).click();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  await expect(theirs.getByText('There is no organisation acme')).toBeVisible();
});

test('whoever invited by a token is named, and on a phone an address is not broken', async ({
  kitbag,
  page,
  context,
}) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada.lovelace@acme-bakery.example', 'Ada Lovelace');
  await ada.enter(context);
  const { secret } = await ada.ask('POST', '/v1/orgs/acme/tokens', { name: 'mine', scopes: ['use', 'manage'] });
  const mia = { email: 'mia.wallace@acme-bakery.example', role: 'member' };
  await kitbag.request('POST', '/v1/orgs/acme/invitations', mia, { authorization: `Bearer ${secret}` });
  await page.goto(`${kitbag.url}/organization`);
  await expect(row(page, 'Invitations', mia.email)).toContainText('Ada Lovelace, by a token');
  await ada.invite('acme', 'eve@acme-bakery.example', 'member');
  await expect(row(page, 'Invitations', 'eve@').getByRole('cell', { name: 'Ada Lovelace', exact: true })).toBeVisible();

  await page.setViewportSize({ width: 390, height: 800 });
  for (const email of ['ada.lovelace@acme-bakery.example', mia.email]) {
    const words = page.getByRole('rowheader').getByText(email).last();
    const lines = await words.evaluate((element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return range.getClientRects().length;
    });
    expect(lines, email).toBe(1);
  }
  // It is a table still, for those who hear it.
  await expect(row(page, 'Members', 'ada.').getByRole('cell')).not.toHaveCount(0);
  await expect(page.getByRole('columnheader', { name: 'Role' })).toHaveCount(1);
});

test('fields that stand side by side are of one height', async ({ kitbag, page }) => {
  await kitbag.open(page, '/settings?tab=defaults');
  await expect(page.getByLabel('Lines of the audit')).toBeVisible();
  const boxes = await Promise.all(
    ['Chats that nobody touched', 'Lines of the audit'].map((label) => page.getByLabel(label).boundingBox()),
  );
  expect(boxes[0]).toMatchObject({ y: boxes[1]!.y, height: boxes[1]!.height });
});

test('an admin is offered what an admin may, and leaves', async ({ kitbag, page, context }) => {
  const { ada, bob } = await acme(kitbag);
  await bob.enter(context);
  await page.goto(`${kitbag.url}/organization`);
  await expect(row(page, 'Members', 'ada@').getByRole('button')).toHaveCount(0);
  await expect(page.getByLabel('Role of Cem').getByRole('option')).toHaveText(['admin', 'member']);
  await page.getByRole('button', { name: 'Invite' }).click();
  await expect(page.getByRole('dialog').getByRole('radio')).toHaveCount(2);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await ada.invite('acme', 'late@acme.example', 'member');
  await page.getByRole('button', { name: 'Take back the invitation of late@acme.example' }).click();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  await expect.poll(async () => (await ada.ask('GET', '/v1/orgs/acme/invitations')).items.length).toBe(0);

  await row(page, 'Members', 'bob@').getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click();
  await expect(page.getByText('You are in no organisation yet')).toBeVisible();
  expect((await ada.ask('GET', '/v1/orgs/acme/members')).items).toHaveLength(2);
});

test('a member looks and uses, and is offered nothing else', async ({ kitbag, page, context }) => {
  const { ada, cem } = await acme(kitbag);
  const zip = demo() as Uint8Array<ArrayBuffer>;
  await ada.send('POST', '/v1/orgs/acme/toolsets/import?trust=true', zip, 'application/zip');
  await cem.enter(context);
  const main = page.getByRole('main');
  const managing = main.getByRole('button', {
    name: /^(Import|Add a server|Invite|Trust|Prepare|Uninstall|Remove|Reconnect|Override|Save|Rename|Forget|Publish|Edit|New toolset)/,
  });
  for (const path of [
    '/',
    '/toolsets',
    '/toolsets/demo',
    '/toolsets/demo?tab=overrides',
    '/servers',
    '/tools',
    '/tools/demo%3Aappend',
    '/organization',
    '/organization?tab=settings',
    '/organization?tab=audit',
    '/organization?tab=secrets',
    '/settings',
    '/settings?tab=server',
  ]) {
    await page.goto(kitbag.url + path);
    await expect(main.getByRole('heading', { level: 1 })).toBeVisible();
    await expect(main.getByRole('status', { name: /^Loading/ })).toHaveCount(0);
    await expect(managing, path).toHaveCount(0);
    for (const on of await main.getByRole('switch').all()) await expect(on, path).toBeDisabled();
    await expect(main.getByRole('alert'), path).toHaveCount(0);
  }
  await page.goto(`${kitbag.url}/organization?tab=audit`);
  await expect(page.getByRole('tab', { name: 'Audit' })).toHaveCount(0);
  await expect(page.getByRole('tab', { name: 'Members' })).toHaveAttribute('aria-selected', 'true');
  await page.goto(`${kitbag.url}/organization?tab=settings`);
  await expect(page.getByLabel('Calls a minute')).toBeDisabled();
  // The page is not what keeps them from it.
  for (const [method, path, body] of [
    ['POST', '/toolsets/demo/enable', { enabled: false }],
    ['DELETE', '/toolsets/demo', undefined],
    ['PUT', '/toolsets/demo/overrides/demo:append', { enabled: false }],
    ['POST', '/mcp-servers', { id: 'x', command: 'x' }],
    ['POST', '/invitations', { email: 'x@acme.example', role: 'member' }],
    ['PUT', '/settings', {}],
    ['GET', '/audit', undefined],
    ['GET', '/secrets', undefined],
  ] as const) {
    await expect(cem.ask(method, `/v1/orgs/acme${path}`, body), `${method} ${path}`).rejects.toThrow(/ 403 /);
  }

  // What they may: say yes to a call of theirs, and connect an agent with a token that may do no more than they.
  const chat = await cem.ask('POST', '/v1/orgs/acme/chats', { title: 'Mine' });
  const call = { toolId: 'demo:append', args: { path: 'a.txt', line: 'hello' } };
  await cem.ask('POST', `/v1/orgs/acme/chats/${chat.id}/tool-calls`, call);
  await page.goto(`${kitbag.url}/o/acme/chats/${chat.id}`);
  await page.getByRole('button', { name: 'Approve' }).click();
  await expect(page.getByText('"lines": 1').or(page.getByText('lines')).first()).toBeVisible();
  await page.goto(`${kitbag.url}/settings?tab=tokens`);
  await page.getByRole('button', { name: 'New token' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('checkbox')).toHaveCount(1);
  await dialog.getByLabel('What it is for').fill('my agent');
  await dialog.getByRole('button', { name: 'Make it' }).click();
  await dialog.getByRole('button', { name: 'I have it' }).click();
  await expect(row(page, 'Tokens', 'my agent')).toContainText('never');
  // Whoever looks after the organisation sees whose it is.
  await ada.enter(context);
  await page.reload();
  await expect(row(page, 'Tokens', 'my agent')).toContainText('Cem');
});

test('settings are saved over what was read, and what is too much is said at the field', async ({
  kitbag,
  page,
  context,
}) => {
  const { ada } = await acme(kitbag);
  const zip = demo() as Uint8Array<ArrayBuffer>;
  await ada.send('POST', '/v1/orgs/acme/toolsets/import?trust=true', zip, 'application/zip');
  await ada.enter(context);
  await page.goto(`${kitbag.url}/organization?tab=settings`);
  const save = page.getByRole('button', { name: 'Save' });
  await expect(save).toBeDisabled();
  await page.getByLabel('Toolset', { exact: true }).selectOption({ label: 'Demo' });
  await page.getByLabel('Calls a minute').fill('120');
  await page.getByLabel('All workspaces together, in MiB').fill('64');
  await page.getByLabel('Chats that nobody touched, in days').fill('90');
  await page.getByLabel('Only these, of what the operator allows').check();
  await page.getByLabel('Hosts').fill('api.example.org\n*.example.net');
  await page.getByLabel('Never these tools').fill('demo:fail');
  await save.click();
  await expect(page.getByRole('status').getByText('The settings are saved.')).toBeVisible();
  const kept = await ada.ask('GET', '/v1/orgs/acme/settings');
  expect(kept.toolsets.defaultToolsetId).toBe('demo');
  expect(kept.quotas).toMatchObject({ callsPerMinute: 120, workspaceBytes: 64 << 20 });
  expect(kept.retention.chatDays).toBe(90);
  expect(kept.network.allow).toEqual(['api.example.org', '*.example.net']);
  expect(kept.resolution.disabledTools).toEqual(['demo:fail']);

  await page.getByLabel('Never these tools').fill('demo:nothing');
  await save.click();
  await expect(page.getByRole('alert')).toContainText('Unknown disabled tool: demo:nothing');
  await page.getByRole('button', { name: 'Put back' }).click();
  await expect(page.getByLabel('Never these tools')).toHaveValue('demo:fail');
  // Somebody else is faster.
  await ada.ask('PUT', '/v1/orgs/acme/settings', { quotas: { callsPerMinute: 7 } });
  await page.getByLabel('Calls a minute').fill('130');
  await save.click();
  await expect(page.getByRole('alert')).toContainText('Somebody else changed the settings');
  await page.getByRole('button', { name: 'Load theirs' }).click();
  await expect(page.getByLabel('Calls a minute')).toHaveValue('7');

  await page.getByLabel('Name', { exact: true }).fill('Acme & Daughters');
  await page.getByRole('button', { name: 'Rename' }).click();
  await expect(page.getByRole('heading', { name: 'Acme & Daughters' })).toBeVisible();
});

test('keys of models are given, replaced and forgotten, and never shown', async ({ kitbag, page, context }) => {
  const { ada } = await acme(kitbag);
  await ada.enter(context);
  await page.goto(`${kitbag.url}/organization?tab=secrets`);
  const item = page.getByRole('listitem').filter({ hasText: 'Anthropic' });
  await expect(item).toContainText('not there');
  await item.getByLabel('A key of Anthropic').fill('sk-ant-what-nobody-reads');
  await item.getByRole('button', { name: 'Keep' }).click();
  await expect(item).toContainText('kept');
  await expect(item).toContainText('ada@acme.example');
  await expect(item.getByLabel('Another key of Anthropic')).toHaveValue('');
  expect(JSON.stringify(await ada.ask('GET', '/v1/orgs/acme/secrets'))).not.toContain('nobody-reads');
  await item.getByRole('button', { name: 'Forget the key of Anthropic' }).click();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).last().click();
  await expect.poll(async () => (await ada.ask('GET', '/v1/orgs/acme/secrets')).items.length).toBe(0);
});

test('the audit says who did what, is looked through, and taken along', async ({ kitbag, page, context }) => {
  const { ada, bob } = await acme(kitbag);
  await bob.invite('acme', 'dot@acme.example', 'member');
  for (let count = 0; count < 60; count += 1) await ada.ask('PATCH', '/v1/orgs/acme', { name: `Acme ${count}` });
  await ada.enter(context);
  await page.goto(`${kitbag.url}/organization?tab=audit`);
  const lines = page.getByRole('list', { name: 'Lines of the audit' }).getByRole('listitem');
  await expect(lines.first()).toContainText('organization.rename');
  await expect(lines.first()).toContainText('Ada');
  // The rest comes when the end comes into view.
  await lines.last().scrollIntoViewIfNeeded();
  await expect.poll(() => lines.count()).toBeGreaterThan(60);

  await page.getByLabel('What', { exact: true }).selectOption('Invitations');
  await expect(page).toHaveURL(/action=invitation/);
  await expect(lines.filter({ hasText: 'organization.' })).toHaveCount(0);
  await page.getByLabel('Who', { exact: true }).fill('bob@acme.example');
  await page.getByLabel('Who', { exact: true }).press('Enter');
  await expect(lines.filter({ hasText: 'Ada' })).toHaveCount(0);
  const made = lines.filter({ hasText: /invitation\.create/ });
  await expect(made).toHaveCount(1);
  await made.getByText(/invitation\.create/).click();
  await expect(made.getByLabel('Details')).toContainText('dot@acme.example');
  await page.reload();
  await expect(made).toHaveCount(1);

  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'CSV' }).click();
  const text = (await (await (await download).createReadStream()).toArray()).join('');
  expect(text).toContain('dot@acme.example');
  expect(text).not.toContain('organization.rename');
  await page.getByRole('button', { name: 'Clear' }).click();
  await expect(lines.first()).toContainText(/audit\.|organization\./);
});

test('where one person has the server, the audit is among the settings', async ({ kitbag, page }) => {
  await kitbag.ask('POST', '/tokens', { name: 'nightly', scopes: ['use'] });
  await kitbag.open(page, '/settings?tab=audit');
  await expect(page.getByRole('list', { name: 'Lines of the audit' })).toContainText('token.create');
  await page.getByRole('tab', { name: 'Defaults and limits' }).click();
  await page.getByLabel('Chats that nobody touched, in days').fill('30');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect.poll(async () => (await kitbag.ask('GET', '/settings')).retention.chatDays).toBe(30);
});
