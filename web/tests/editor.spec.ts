// Toolsets written in the page: servers and skills, what is wrong with them while they are typed, and what becomes of what was not saved.
import type { Locator, Page } from '@playwright/test';
import { zipSync } from 'fflate';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from './kit.ts';
import { Person } from './people.ts';

const NOTES = join(import.meta.dirname, 'example/notes.mjs');
const SECRET = 'sk-live-1234567890abcdef';
const skillText = (id: string, more = '') =>
  `---\nname: ${id}\ndescription: Sorts tickets by what they ask for.\n${more}---\n\n# Sort\n`;

const part = (page: Page, section: string, name: string) =>
  page.getByRole('region', { name: section }).getByRole('listitem', { name, exact: true });
/** A field by what it is called; the star of one that is needed is not part of that. */
const field = (place: Page | Locator, name: string) => place.getByRole('textbox', { name, exact: true });
const text = (page: Page, path: string) => page.getByLabel(`The text of ${path}`);

/** Writes a whole text into an editor, as somebody who pastes it. */
async function write(editor: Locator, words: string) {
  await editor.click();
  await editor.press('Control+a');
  await editor.fill(words);
}

/** Everything that the page keeps in this browser. */
const stored = (page: Page) => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));

test('a toolset with a server and a skill is made, changed and saved by the page alone', async ({ kitbag, page }) => {
  await kitbag.open(page, '/toolsets');
  await page.getByRole('link', { name: 'New', exact: true }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/new`);
  await field(page, 'Name').fill('Release Notes');
  await page.getByLabel('Description').first().fill('Writes what changed.');

  await page.getByRole('button', { name: 'Add a server' }).click();
  // A whole line is taken apart, and names the server.
  await field(page, 'Command').fill(`node ${NOTES}`);
  await page.getByLabel('Arguments').focus();
  await expect(field(page, 'Command')).toHaveValue('node');
  await expect(page.getByLabel('Arguments')).toHaveValue(NOTES);
  await field(page.getByRole('region', { name: 'MCP servers' }), 'Id').fill('notes');
  await page.getByRole('button', { name: 'Add a variable' }).click();
  await page.getByLabel('Variable 1: name').fill('NOTES_HOME');
  await page.getByLabel('Variable 1: value').fill('${HOME}');

  await page.getByRole('button', { name: 'New skill' }).click();
  await expect(page.getByText('Nothing is wrong with it.')).toBeVisible();
  await page.getByLabel('Skill id').fill('sort-tickets');
  // What SKILL.md says follows.
  await expect(text(page, 'SKILL.md')).toContainText('name: sort-tickets');
  await page.getByRole('button', { name: 'Make the toolset' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/release-notes`);
  await expect(page.getByRole('heading', { name: 'Release Notes', level: 1 })).toBeVisible();

  const made = await kitbag.ask('GET', '/toolsets/release-notes');
  expect(made).toMatchObject({ name: 'Release Notes', description: 'Writes what changed.', visibility: 'org' });
  expect(made.mcpServers).toMatchObject([
    { serverId: 'notes', command: 'node', envNames: ['NOTES_HOME'], trusted: true },
  ]);
  expect(made.agentSkills).toMatchObject([{ id: 'sort-tickets', enabled: true }]);
  // Its server has been seen by whoever wrote it, so it starts.
  await expect(page.getByRole('listitem', { name: 'Add note' })).toBeVisible();

  await page.getByRole('link', { name: 'Edit', exact: true }).click();
  await expect(field(page, 'Name')).toHaveValue('Release Notes');
  await expect(page.getByRole('button', { name: 'Save', exact: true })).toBeDisabled();
  await part(page, 'MCP servers', 'notes').getByRole('button', { expanded: false }).click();
  await expect(page.getByLabel('Variable 1: value')).toHaveValue('${HOME}');
  await page.getByLabel('Description').nth(1).fill('Keeps notes');
  const skill = part(page, 'Skills', 'sort-tickets');
  await skill.getByRole('button', { expanded: false }).click();
  await skill.getByRole('button', { name: 'New file' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Path').fill('skill.md');
  await dialog.getByRole('button', { name: 'Make it' }).click();
  await expect(dialog).toContainText('SKILL.md is there already; upper and lower case make no difference');
  await dialog.getByLabel('Path').fill('references/words.md');
  await dialog.getByRole('button', { name: 'Make it' }).click();
  await write(text(page, 'references/words.md'), 'urgent, now');
  await skill.locator('input[type="file"]').setInputFiles({
    name: 'mark.png',
    mimeType: 'image/png',
    buffer: Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255, 254]),
  });
  await expect(skill.getByText('7 B that are no text.')).toBeVisible();
  await skill.getByRole('button', { name: 'Rename mark.png' }).click();
  await dialog.getByLabel('Path').fill('assets/mark.png');
  await dialog.getByRole('button', { name: 'Rename' }).click();
  await expect(skill.getByRole('list', { name: 'Files of sort-tickets' }).getByRole('button')).toHaveText([
    /SKILL\.md/,
    /assets\/mark\.png/,
    /references\/words\.md/,
  ]);
  // What makes it a skill can neither go nor be called otherwise.
  await skill.getByRole('button', { name: /^SKILL\.md/ }).click();
  await expect(skill.getByRole('button', { name: 'Delete SKILL.md' })).toBeDisabled();
  await page.keyboard.press('Control+s');
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/release-notes`);
  const bundle = await kitbag.ask('GET', '/toolsets/release-notes/skills/sort-tickets');
  expect(bundle.files.map(({ path, encoding }: any) => [path, encoding])).toEqual([
    ['SKILL.md', 'utf8'],
    ['assets/mark.png', 'base64'],
    ['references/words.md', 'utf8'],
  ]);
  expect(bundle.files[2].content).toBe('urgent, now');
  expect(Buffer.from(bundle.files[1].content, 'base64')).toHaveLength(7);
  const changed = await kitbag.ask('GET', '/toolsets/release-notes');
  expect(changed.mcpServers[0]).toMatchObject({
    description: 'Keeps notes',
    env: { NOTES_HOME: '${HOME}' },
    trusted: true,
  });
});

test('a SKILL.md is checked while it is typed, and what is wrong has its place', async ({ kitbag, page }) => {
  await kitbag.open(page, '/toolsets/new');
  await page.getByRole('button', { name: 'New skill' }).click();
  const skill = part(page, 'Skills', 'my-skill');
  await expect(skill.getByText('Nothing is wrong with it.')).toBeVisible();
  await write(text(page, 'SKILL.md'), '---\nname: my-skill\ndescription: Sorts.\nname: again\n---\n');
  const problems = skill.getByRole('list', { name: 'Problems of the skill' });
  await expect(problems.getByRole('button').first()).toContainText(/SKILL\.md:4:1/);
  await expect(skill.locator('.cm-lint-marker-error')).toHaveCount(1);
  await expect(skill.locator('.cm-lintRange-error').first()).toBeVisible();
  await expect(skill.getByText('1 problem', { exact: true }).first()).toBeVisible();

  // The list leads to the place.
  await problems.getByRole('button').first().click();
  await page.keyboard.press('End');
  await page.keyboard.type(' # here');
  await expect(text(page, 'SKILL.md')).toContainText('name: again # here');

  await write(text(page, 'SKILL.md'), skillText('another-name'));
  await expect(problems).toContainText('the name of the skill, my-skill');
  await field(page, 'Name').fill('Broken');
  await page.getByRole('button', { name: 'Make the toolset' }).click();
  // The server has the last word, and its words stand at their place.
  await expect(page.getByRole('alert').first()).toContainText('It is not saved');
  await expect(page.getByRole('alert').first()).toContainText('my-skill');
  expect((await kitbag.ask('GET', '/toolsets')).items).toEqual([]);
  await write(text(page, 'SKILL.md'), skillText('my-skill'));
  await expect(skill.getByText('Nothing is wrong with it.')).toBeVisible();
  await expect(page.getByText('It is not saved')).toHaveCount(0);
  await page.getByRole('button', { name: 'Make the toolset' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/broken`);
});

test('skills come as a ZIP and as a folder', async ({ kitbag, page }) => {
  const bytes = (words: string) => new TextEncoder().encode(words);
  const zip = zipSync({
    'plugin/skills/triage/SKILL.md': bytes(skillText('triage')),
    'plugin/skills/triage/scripts/run.sh': bytes('#!/bin/sh\n'),
    'plugin/skills/reply/SKILL.md': bytes(skillText('reply')),
    'plugin/README.md': bytes('no part of a skill'),
  });
  await kitbag.open(page, '/toolsets/new');
  await page.locator('input[data-choose="skill-file"]').setInputFiles({
    name: 'plugin.zip',
    mimeType: 'application/zip',
    buffer: Buffer.from(zip),
  });
  await expect(part(page, 'Skills', 'triage')).toBeVisible();
  await expect(part(page, 'Skills', 'reply')).toBeVisible();
  const folder = join(kitbag.data, 'sort');
  mkdirSync(join(folder, '.git'), { recursive: true });
  writeFileSync(join(folder, '.git/config'), 'x');
  writeFileSync(join(folder, 'SKILL.md'), skillText('sort'));
  await page.locator('input[data-choose="skill-folder"]').setInputFiles(folder);
  await expect(
    part(page, 'Skills', 'sort').getByRole('list', { name: 'Files of sort' }).getByRole('listitem'),
  ).toHaveCount(1);
  await page.locator('input[data-choose="skill-file"]').setInputFiles({
    name: 'no.zip',
    mimeType: 'application/zip',
    buffer: Buffer.from('nothing'),
  });
  await expect(page.getByText('no.zip is no ZIP of a skill')).toBeVisible();
  await field(page, 'Name').fill('Desk');
  await page.getByRole('button', { name: 'Make the toolset' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/desk`);
  const { agentSkills } = await kitbag.ask('GET', '/toolsets/desk');
  expect(agentSkills.map(({ id }: any) => id).sort()).toEqual(['reply', 'sort', 'triage']);
});

test('what is not saved outlives a reload without its secrets, and whoever leaves is asked', async ({
  kitbag,
  page,
}) => {
  await kitbag.open(page, '/toolsets');
  await page.getByRole('link', { name: 'New', exact: true }).click();
  await field(page, 'Name').fill('Half done');
  await page.getByRole('button', { name: 'Paste JSON' }).click();
  const config = { mcpServers: { desk: { command: 'desk', env: { KEY: SECRET, HOME_OF: '${env:DESK_HOME}' } } } };
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Configuration').fill(`// of my editor\n${JSON.stringify(config)}`);
  await dialog.getByRole('button', { name: 'Add 1 server' }).click();
  await expect(page.getByLabel('Variable 1: value')).toHaveValue(SECRET);
  await expect.poll(() => stored(page)).toContain('Half done');
  expect(await stored(page)).not.toContain(SECRET);
  await page.reload();
  await expect(page.getByText('What you wrote before is here again.')).toBeVisible();
  await expect(field(page, 'Name')).toHaveValue('Half done');
  await part(page, 'MCP servers', 'desk').getByRole('button', { expanded: false }).click();
  await expect(page.getByLabel('Variable 1: value')).toHaveValue('');
  await expect(page.getByLabel('Variable 2: value')).toHaveValue('${ENV:DESK_HOME}');

  // By a link and by the browser's own button.
  const asked = page.getByRole('dialog', { name: 'Leave without saving?' });
  await page.getByRole('link', { name: 'Chats' }).click();
  await asked.getByRole('button', { name: 'Stay' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/new`);
  await expect(field(page, 'Name')).toHaveValue('Half done');
  await page.goBack();
  await expect(asked).toBeVisible();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/new`);
  await asked.getByRole('button', { name: 'Stay' }).click();
  await page.getByRole('link', { name: 'Chats' }).click();
  await asked.getByRole('button', { name: 'Leave it and go' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/chats`);
  await page.getByRole('link', { name: 'Toolsets' }).click();
  await page.getByRole('link', { name: 'New', exact: true }).click();
  await expect(field(page, 'Name')).toHaveValue('Half done');
  await page.getByRole('link', { name: 'Chats' }).click();
  await asked.getByRole('button', { name: 'Discard and leave' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/chats`);
  expect(await stored(page)).not.toContain('Half done');
});

test('what others did meanwhile is told', async ({ kitbag, page }) => {
  const body = { name: 'Shared', mcpServers: [], agentSkills: [] };
  await kitbag.ask('POST', '/toolsets', body);
  await kitbag.open(page, '/toolsets/shared/edit');
  await page.getByLabel('Description').first().fill('Mine');
  await kitbag.ask('PUT', '/toolsets/shared', { ...body, description: 'Theirs' });
  await expect(page.getByText('Somebody changed it meanwhile.')).toBeVisible();
  await page.getByRole('button', { name: 'Look at theirs' }).click();
  await expect(page.getByLabel('Description').first()).toHaveValue('Theirs');
  await expect(page.getByText('Somebody changed it meanwhile.')).toHaveCount(0);

  // An id that is taken is told beside it.
  await page.goto(`${kitbag.url}/toolsets/new`);
  await field(page, 'Name').fill('Another');
  await field(page, 'Id').fill('shared');
  await page.getByRole('button', { name: 'Make the toolset' }).click();
  await expect(field(page, 'Id')).toHaveAttribute('aria-invalid', 'true');
  await expect(field(page, 'Id')).toBeFocused();
});

test.describe('in an organisation', () => {
  test('a value that is no reference is refused while it is typed, and kept nowhere', async ({
    kitbag,
    page,
    context,
  }) => {
    const ada = await Person.owner(kitbag, 'acme', 'ada@example.org', 'Ada');
    await ada.enter(context);
    await page.goto(`${kitbag.url}/o/acme/toolsets/new`);
    await expect(page.getByRole('radio', { name: /Private/ })).toBeChecked();
    await field(page, 'Name').fill('Desk');
    await page.getByRole('button', { name: 'Add a server' }).click();
    await page.getByRole('tab', { name: 'Address' }).click();
    await field(page, 'Address').fill('https://mcp.example.org/mcp');
    await page.getByRole('button', { name: 'Add a header' }).click();
    await page.getByLabel('Header 1: name').fill('Authorization');
    await page.getByLabel('Header 1: value').fill(`Bearer ${SECRET}`);
    await expect(page.getByText('Only a reference, exactly ${ENV:NAME}').first()).toBeVisible();
    await expect(page.getByLabel('Header 1: value')).toHaveAttribute('aria-invalid', 'true');
    let sent = 0;
    page.on('request', (request) => (sent += request.postData()?.includes(SECRET) ? 1 : 0));
    await page.getByRole('button', { name: 'Make the toolset' }).click();
    await expect(page.getByRole('alert').first()).toContainText('It is not saved');
    await expect(page.getByRole('alert').first()).toContainText(/Server example: Only a reference/);
    expect(sent).toBe(0);
    expect(await stored(page)).not.toContain(SECRET);

    // What is pasted loses its values.
    await page.getByRole('button', { name: 'Paste JSON' }).click();
    const dialog = page.getByRole('dialog');
    await dialog
      .getByLabel('Configuration')
      .fill(JSON.stringify({ desk: { command: 'desk', env: { API_KEY: SECRET } } }));
    await expect(dialog).toContainText('the value of API_KEY was left out; ${ENV:API_KEY} stands in its place');
    await dialog.getByRole('button', { name: 'Add 1 server' }).click();
    await expect(page.getByLabel('Variable 1: value')).toHaveValue('${ENV:API_KEY}');
    await page.getByLabel('Header 1: value').fill('${ENV:DESK_TOKEN}');
    await expect(page.getByText('It is not saved')).toHaveCount(0);
    await page.getByRole('button', { name: 'Make the toolset' }).click();
    await expect(page).toHaveURL(`${kitbag.url}/o/acme/toolsets/desk`);
    await expect(page.getByText('who made it, and who manages')).toBeVisible();
    expect(await stored(page)).not.toContain(SECRET);
    const made = await ada.ask('GET', '/v1/orgs/acme/toolsets/desk');
    expect(made.mcpServers.map((one: any) => [one.serverId, one.env, one.headers])).toEqual([
      ['example', {}, { Authorization: '${ENV:DESK_TOKEN}' }],
      ['desk', { API_KEY: '${ENV:API_KEY}' }, {}],
    ]);
  });

  test('members do not make toolsets, and are told so', async ({ kitbag, page, context }) => {
    const ada = await Person.owner(kitbag, 'acme', 'ada@example.org', 'Ada');
    const mia = await ada.brings('acme', 'mia@example.org', 'member', 'Mia');
    await mia.enter(context);
    await page.goto(`${kitbag.url}/o/acme/toolsets/new`);
    await expect(page.getByRole('heading', { name: 'This is for who manages' })).toBeVisible();
    await page.goto(`${kitbag.url}/o/acme/toolsets`);
    await expect(page.getByRole('heading', { name: 'Toolsets', level: 1 })).toBeVisible();
    await expect(page.getByRole('link', { name: 'New', exact: true })).toHaveCount(0);
  });
});
