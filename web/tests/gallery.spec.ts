// The gallery: toolsets are published, found, copied into another organisation, and taken back; and which toolset is the default.
import type { Locator, Page } from '@playwright/test';
import { expect, type Kitbag, test } from './kit.ts';
import { another, Person } from './people.ts';

const SKILL = '---\nname: triage\ndescription: Sorts tickets by what they ask for.\n---\n\n# Sort\n';
const desk = (name: string) => ({
  name,
  description: 'Answers tickets.',
  visibility: 'org',
  mcpServers: [
    { id: 'tickets', command: 'ticket-server', args: ['--all'], env: { TICKET_KEY: '${ENV:OUR_TICKET_KEY}' } },
  ],
  agentSkills: [
    {
      format: 'agentskills-v1',
      id: 'triage',
      name: 'triage',
      entry: 'SKILL.md',
      files: [
        { path: 'SKILL.md', content: SKILL },
        { path: 'references/words.md', content: 'urgent' },
      ],
    },
  ],
});

async function twoOrganizations(kitbag: Kitbag) {
  const ada = await Person.owner(kitbag, 'acme', 'ada@acme.example', 'Ada');
  const bob = await Person.owner(kitbag, 'beta', 'bob@beta.example', 'Bob');
  return { ada, bob };
}

/** A field by what it is called; the star of one that is needed is not part of that. */
const field = (place: Page | Locator, name: string) => place.getByRole('textbox', { name, exact: true });
const card = (page: Page, name: string) =>
  page.getByRole('list', { name: 'Published toolsets' }).getByRole('listitem', { name });

test('a toolset is published, found by another organisation, adopted without trust, and taken back', async ({
  kitbag,
  page,
  context,
  browser,
}) => {
  test.slow();
  const { ada, bob } = await twoOrganizations(kitbag);
  await ada.ask('POST', '/v1/orgs/acme/toolsets', desk('Support Desk'));
  await ada.ask('POST', '/v1/orgs/acme/toolsets', { ...desk('Old Desk'), id: 'old' });
  await ada.ask('POST', '/v1/orgs/acme/toolsets/old/publish', { publicSlug: 'old-desk' });
  await ada.enter(context);

  // What will be public is shown before it is, and the name is checked while it is typed.
  await page.goto(`${kitbag.url}/o/acme/toolsets/support-desk`);
  await page.getByRole('button', { name: 'Publish', exact: true }).click();
  const dialog = page.getByRole('dialog');
  const slug = dialog.getByLabel('Name in the gallery');
  await expect(slug).toHaveValue('support-desk');
  const seen = dialog.getByRole('region', { name: 'What everybody will see' });
  await expect(seen).toContainText('ticket-server --all');
  await expect(seen).toContainText('TICKET_KEY');
  await expect(seen).not.toContainText('OUR_TICKET_KEY');
  await expect(seen).toContainText('skills/triage/references/words.md');
  await slug.fill('Support_Desk');
  await expect(dialog).toContainText('Lower-case letters, digits and - only.');
  await expect(dialog.getByRole('button', { name: 'Publish', exact: true })).toBeDisabled();
  await slug.fill('ab');
  await expect(dialog).toContainText('at least 3 characters');
  await slug.fill('old-desk');
  await expect(dialog).toContainText('Another toolset is in the gallery under this name.');
  // A name that is only kept for somebody is known to the server alone.
  await bob.ask('POST', '/v1/orgs/beta/toolsets', { ...desk('Bobs'), id: 'bobs' });
  await bob.ask('POST', '/v1/orgs/beta/toolsets/bobs/publish', { publicSlug: 'kept-by-bob' });
  await bob.ask('POST', '/v1/orgs/beta/toolsets/bobs/unpublish', {});
  await slug.fill('kept-by-bob');
  await dialog.getByRole('button', { name: 'Publish', exact: true }).click();
  await expect(slug).toHaveAttribute('aria-invalid', 'true');
  await expect(dialog.getByRole('alert')).toContainText('kept-by-bob');
  await slug.fill('support-desk');
  await dialog.getByRole('button', { name: 'Publish', exact: true }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByRole('link', { name: 'support-desk' })).toBeVisible();
  await page.goto(`${kitbag.url}/o/acme/toolsets`);
  await expect(page.getByRole('listitem', { name: 'Support Desk' })).toContainText('Public: support-desk');

  // Another organisation finds it by its skill, and sees names only.
  const theirs = await another(browser);
  await bob.enter(theirs.context());
  await theirs.goto(`${kitbag.url}/o/beta/`);
  await theirs.getByRole('link', { name: 'Gallery' }).first().click();
  await expect(card(theirs, 'Old Desk')).toBeVisible();
  await expect(card(theirs, 'Support Desk')).toContainText('1 server');
  await theirs.getByLabel('Search the gallery').fill('support');
  await expect(card(theirs, 'Old Desk')).toHaveCount(0);
  await expect(theirs).toHaveURL(`${kitbag.url}/o/beta/gallery?q=support`);
  await card(theirs, 'Support Desk').getByRole('link').click();
  await expect(theirs).toHaveURL(`${kitbag.url}/o/beta/gallery/support-desk`);
  await expect(theirs.getByRole('region', { name: 'Servers' })).toContainText('ticket-server --all');
  await expect(theirs.getByRole('region', { name: 'Servers' })).toContainText('TICKET_KEY');
  await expect(theirs.getByRole('main')).not.toContainText('OUR_TICKET_KEY');
  await expect(theirs.getByRole('region', { name: 'Files' })).toContainText('skills/triage/SKILL.md');
  await theirs.getByRole('button', { name: 'Adopt', exact: true }).click();
  const adopt = theirs.getByRole('dialog');
  await expect(field(adopt, 'Name')).toHaveValue('Support Desk (Adopted)');
  await field(adopt, 'Id').fill('bobs');
  await adopt.getByRole('button', { name: 'Adopt', exact: true }).click();
  await expect(field(adopt, 'Id')).toHaveAttribute('aria-invalid', 'true');
  await field(adopt, 'Id').fill('our-desk');
  await adopt.getByRole('button', { name: 'Adopt', exact: true }).click();
  await expect(theirs).toHaveURL(`${kitbag.url}/o/beta/toolsets/our-desk?tab=servers`);
  await expect(theirs.getByText('Nobody trusts it yet. Its server does not start.')).toBeVisible();
  await expect(theirs.getByRole('list', { name: 'Servers' })).toContainText('ticket-server --all');
  await expect(theirs.getByRole('list', { name: 'Servers' })).toContainText('Not trusted yet');
  await expect(theirs.getByRole('link', { name: 'support-desk' })).toBeVisible();
  const copy = await bob.ask('GET', '/v1/orgs/beta/toolsets/our-desk');
  expect(copy).toMatchObject({ name: 'Support Desk (Adopted)', visibility: 'org', trusted: false });
  expect(copy.mcpServers).toMatchObject([{ serverId: 'tickets', trusted: false, status: 'needs_trust' }]);

  // What is published cannot be edited before it is taken back.
  await page.goto(`${kitbag.url}/o/acme/toolsets/support-desk/edit`);
  await expect(page.getByText('must be unpublished before it is edited')).toBeVisible();
  await expect(field(page, 'Name')).toHaveCount(0);
  await page.getByRole('button', { name: 'Unpublish' }).click();
  await dialog.getByRole('radio', { name: /Private/ }).check();
  await dialog.getByRole('button', { name: 'Unpublish' }).click();
  await expect(field(page, 'Name')).toHaveValue('Support Desk');
  expect((await ada.ask('GET', '/v1/orgs/acme/toolsets/support-desk')).visibility).toBe('private');
  await theirs.goto(`${kitbag.url}/o/beta/gallery/support-desk`);
  await expect(theirs.getByRole('heading', { name: '“support-desk” is not in the gallery' })).toBeVisible();
  // The copy is theirs.
  await theirs.goto(`${kitbag.url}/o/beta/toolsets/our-desk`);
  await expect(theirs.getByRole('heading', { name: 'Support Desk (Adopted)' })).toBeVisible();
});

test('what is shown before it is published is what the gallery shows', async ({ kitbag, page }) => {
  const far = { id: 'far', type: 'streamable-http', url: 'https://mcp.example.org:8443/v1/sse?tenant=7' };
  const near = { ...desk('').mcpServers[0]!, cwd: '/home/ada/tickets' };
  await kitbag.ask('POST', '/toolsets', { ...desk('Support Desk'), mcpServers: [near, far] });
  await kitbag.open(page, '/toolsets/support-desk');
  await page.getByRole('button', { name: 'Publish', exact: true }).click();
  const dialog = page.getByRole('dialog');
  const seen = dialog.getByRole('region', { name: 'What everybody will see' });
  await expect(seen).toContainText('3 files');
  await expect(seen).toContainText('toolset.yaml');
  await expect(seen.getByText('mcp.example.org:8443', { exact: true })).toBeVisible();
  await expect(seen).not.toContainText('tenant');
  await expect(seen).not.toContainText('/home/ada');
  await dialog.getByRole('button', { name: 'Publish', exact: true }).click();
  await page.getByRole('link', { name: 'support-desk' }).click();
  const files = page.getByRole('region', { name: 'Files' });
  await expect(files.getByRole('heading', { name: '3 files' })).toBeVisible();
  await expect(files).toContainText('toolset.yaml');
  await expect(page.getByText('mcp.example.org:8443', { exact: true })).toBeVisible();
  await expect(page.getByRole('main')).not.toContainText('/home/ada');
});

test('what is in the gallery is unpublished before it is uninstalled', async ({ kitbag, page }) => {
  await kitbag.ask('POST', '/toolsets', desk('Support Desk'));
  await kitbag.ask('POST', '/toolsets/support-desk/publish', { publicSlug: 'support-desk' });
  await kitbag.open(page, '/toolsets');
  const row = page.getByRole('listitem', { name: 'Support Desk' });
  const button = row.getByRole('button', { name: /uninstall/i });
  await expect(button).toHaveAttribute('title', /unpublished first/);
  await button.click();
  const dialog = page.getByRole('dialog', { name: 'Unpublish Support Desk?' });
  await expect(dialog).toContainText('must be unpublished before it is uninstalled');
  await expect(page.getByText('is uninstalled.', { exact: true })).toHaveCount(0);
  await expect(row).toBeVisible();
  await dialog.getByRole('button', { name: 'Unpublish' }).click();
  await expect(row).not.toContainText('Public');
  await page.getByRole('button', { name: 'Uninstall it now' }).click();
  await expect(page.getByText('Support Desk is uninstalled.')).toBeVisible();
  await expect(row).toBeHidden();
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  const ids = async () => (await kitbag.ask('GET', '/toolsets')).items.map(({ id }: { id: string }) => id);
  await expect.poll(ids).not.toContain('support-desk');
});

test('what the server does not uninstall comes back, and it is said why', async ({ kitbag, page }) => {
  await kitbag.ask('POST', '/toolsets', desk('Support Desk'));
  await kitbag.open(page, '/toolsets');
  const row = page.getByRole('listitem', { name: 'Support Desk' });
  await row.getByRole('button', { name: 'Uninstall Support Desk' }).click();
  await expect(row).toBeHidden();
  // Somebody publishes it while it can still be undone.
  await kitbag.ask('POST', '/toolsets/support-desk/publish', { publicSlug: 'support-desk' });
  await page.getByRole('status').getByRole('button', { name: 'Close' }).click();
  await expect(page.getByText('must be unpublished before')).toBeVisible();
  await expect(row).toContainText('Public: support-desk');
});

test('members and those who are nowhere look, and are told why they cannot adopt', async ({
  kitbag,
  page,
  context,
}) => {
  const { ada, bob } = await twoOrganizations(kitbag);
  await ada.ask('POST', '/v1/orgs/acme/toolsets', desk('Support Desk'));
  await ada.ask('POST', '/v1/orgs/acme/toolsets/support-desk/publish', { publicSlug: 'support-desk' });
  const mia = await bob.brings('beta', 'mia@beta.example', 'member', 'Mia');
  await mia.enter(context);
  await page.goto(`${kitbag.url}/o/beta/gallery/support-desk`);
  await expect(page.getByText('Owners and admins of the organisation take copies.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Adopt' })).toHaveCount(0);

  await bob.ask('DELETE', `/v1/orgs/beta/members/${mia.id}`);
  await page.goto(`${kitbag.url}/gallery`);
  await card(page, 'Support Desk').getByRole('link').click();
  await expect(page).toHaveURL(`${kitbag.url}/gallery/support-desk`);
  await expect(page.getByText('You are in no organisation that could take a copy.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Adopt' })).toHaveCount(0);
});

test('the list goes on as it is read, and one’s own can be adopted too', async ({ kitbag, page }) => {
  test.slow();
  for (let number = 1; number <= 30; number += 1) {
    const id = `tools-${String(number).padStart(2, '0')}`;
    await kitbag.ask('POST', '/toolsets', { id, name: `Tools ${number}`, mcpServers: [], agentSkills: [] });
    await kitbag.ask('POST', `/toolsets/${id}/publish`, { publicSlug: id });
  }
  await kitbag.open(page, '/gallery');
  const cards = page.getByRole('list', { name: 'Published toolsets' }).getByRole('listitem');
  // The newest come first.
  await expect(cards.first()).toContainText('Tools 30');
  await cards.last().scrollIntoViewIfNeeded();
  await expect(cards).toHaveCount(30);
  await expect(page.getByRole('button', { name: 'Show more' })).toHaveCount(0);
  await page.getByLabel('Search the gallery').fill('nothing like it');
  await expect(page.getByRole('heading', { name: 'Nothing fits' })).toBeVisible();
  await page.getByLabel('Search the gallery').fill('tools-07');
  await expect(cards.first()).toContainText('Tools 7');
  await cards.first().getByRole('link').click();
  await page.getByRole('button', { name: 'Adopt', exact: true }).click();
  // No id is promised other than the one that comes.
  await expect(field(page.getByRole('dialog'), 'Id')).toHaveAccessibleDescription(/the id that the original has/);
  await expect(field(page.getByRole('dialog'), 'Id')).not.toHaveAttribute('placeholder');
  await page.getByRole('dialog').getByRole('button', { name: 'Adopt', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Tools 7 (Adopted)' })).toBeVisible();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/tools-07-1`);
  await expect(page.getByText('Copy of')).toBeVisible();
});

test('a toolset becomes the default, and is it no more', async ({ kitbag, page }) => {
  await kitbag.ask('POST', '/toolsets', { name: 'Desk', mcpServers: [], agentSkills: [] });
  const standard = async () => (await kitbag.ask('GET', '/settings')).toolsets.defaultToolsetId;
  await kitbag.open(page, '/toolsets/desk');
  await page.getByRole('button', { name: 'The default toolset' }).click();
  await expect(page.getByText('taken where none is named')).toBeVisible();
  await expect.poll(standard).toBe('desk');
  await page.goto(`${kitbag.url}/toolsets`);
  await expect(page.getByRole('listitem', { name: 'Desk' })).toContainText('Default');
  await page.getByRole('link', { name: 'Desk', exact: true }).click();
  // By keys alone.
  await page.keyboard.press('Control+k');
  await page.keyboard.type('not the default');
  await page.keyboard.press('Enter');
  await expect(page.getByText('taken where none is named')).toHaveCount(0);
  await expect.poll(standard).toBe(null);
});
