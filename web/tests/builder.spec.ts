// Toolsets put together with a model: from what somebody wants to what is saved, and what becomes of it when the model, or somebody, errs.
import type { Locator, Page } from '@playwright/test';
import { expect, Kitbag, test as base } from './kit.ts';
import { Gate, Model, type Reply } from './model.ts';
import { Person } from './people.ts';

const test = base.extend<{ model: Model }>({
  model: async ({}, use) => {
    const model = await Model.start();
    await use(model);
    await model.stop();
  },
  kitbag: async ({ model }, use) => {
    const kitbag = await Kitbag.start(model.flags);
    await use(kitbag);
    await kitbag.stop();
  },
});

const WANTED = 'Triage new GitHub issues and tell the team in Slack.';
const TOKEN = `ghp_${'a1B2c3D4e5'.repeat(4)}`;
const SKILL = '---\nname: github-triage\ndescription: How to triage issues.\n---\n\n# Triage\n\nNewest first.\n';

const says = (value: unknown): Reply => [{ text: JSON.stringify(value) }];
const suggests = (message: string, ...suggestedComponentKeys: string[]) => says({ message, suggestedComponentKeys });
const drafts = () =>
  says({
    name: 'Issue helper',
    description: 'Looks after issues.',
    agentSkills: [
      {
        format: 'agentskills-v1',
        id: 'github-triage',
        name: 'github-triage',
        description: 'How to triage issues.',
        entry: 'SKILL.md',
        files: [{ path: 'SKILL.md', content: SKILL }],
      },
    ],
  });

const intent = (page: Page) => page.getByRole('textbox', { name: 'What should the toolset do?' });
const message = (page: Page) => page.getByRole('textbox', { name: 'What do you want to say?' });
const said = (page: Page) => page.getByRole('log').getByRole('listitem');
const card = (page: Page, name: string) =>
  page.getByRole('region', { name: 'Suggestions' }).getByRole('listitem', { name, exact: true });
const preview = (page: Page) => page.getByRole('complementary', { name: 'The draft so far' });
const server = (place: Locator, name: string) =>
  place.getByRole('region', { name: 'Servers of the draft' }).getByRole('listitem', { name, exact: true });

/** From the first step into the conversation. */
async function begin(page: Page, words = WANTED) {
  await intent(page).fill(words);
  await page.getByRole('button', { name: 'Begin', exact: true }).click();
}

/** Everything that the models were asked, as one text. */
const heard = (model: Model) => JSON.stringify(model.questions.map(({ body }) => body));

test('from an idea to a toolset that is saved', async ({ kitbag, page, model }) => {
  model.answers(
    suggests('GitHub and Slack fit, with a **skill** for triage.', 'mcp.slack', 'mcp.github', 'skill.github-triage'),
    suggests('Linear, then.', 'mcp.linear'),
    drafts(),
  );
  await kitbag.open(page, '/toolsets');
  await page.getByRole('link', { name: 'Build with a model' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/new/builder`);
  await expect(page.getByText('Do not paste secrets:')).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Model' })).toHaveValue('anthropic/claude-stand-in');
  await page.getByRole('combobox', { name: 'Model' }).selectOption('openai/stand-in-small');
  await begin(page);

  await expect(page).toHaveURL(/\/toolsets\/new\/builder\/[\w-]+$/);
  await expect(said(page)).toHaveCount(2);
  await expect(said(page).first()).toContainText(WANTED);
  await expect(said(page).last().locator('strong', { hasText: 'skill' })).toBeVisible();
  expect(model.questions[0]).toMatchObject({ path: '/v1/chat/completions', body: { model: 'stand-in-small' } });
  // What the model suggests comes first, in its order, and is chosen.
  const cards = page.getByRole('region', { name: 'Suggestions' }).getByRole('listitem');
  await expect(cards.nth(0)).toContainText('Slack');
  await expect(cards.nth(1)).toContainText('GitHub');
  await expect(card(page, 'GitHub')).toContainText('Needs GITHUB_TOKEN');
  const draft = preview(page);
  await expect(server(draft, 'github')).toContainText('npx -y @modelcontextprotocol/server-github');
  await expect(server(draft, 'github')).toContainText('${ENV:GITHUB_TOKEN}');
  await expect(draft.getByRole('region', { name: 'Variables of the draft' })).toContainText('SLACK_BOT_TOKEN');
  await expect(draft.getByRole('listitem', { name: 'github-triage' })).toBeVisible();

  // What is taken away is gone from the draft, and the model is told.
  await page.getByRole('button', { name: 'Take away Slack' }).click();
  await expect(server(draft, 'slack')).toHaveCount(0);
  await expect(draft).not.toContainText('SLACK_BOT_TOKEN');
  await page.getByRole('button', { name: 'All 30' }).click();
  await page.getByLabel('Search the catalogue').fill('deepwiki');
  await page.getByRole('button', { name: 'Choose DeepWiki' }).click();
  await expect(server(draft, 'deepwiki')).toContainText('https://mcp.deepwiki.com/mcp');
  await message(page).fill('No Slack, Linear please.');
  await message(page).press('Enter');
  await expect(said(page)).toHaveCount(4);
  await expect(message(page)).toHaveValue('');
  await expect(server(draft, 'linear')).toBeVisible();
  await expect(server(draft, 'slack')).toHaveCount(0);
  await expect(server(draft, 'deepwiki')).toBeVisible();
  const told = JSON.parse(model.questions[1]!.body.messages.at(-1).content);
  expect(told.selectedComponentKeys).toEqual(['mcp.github', 'skill.github-triage', 'mcp.deepwiki']);

  await draft.getByLabel('Name').fill('Issue desk');
  await draft.getByRole('button', { name: 'Make the draft' }).click();
  const made = page.getByRole('region', { name: 'The draft', exact: true });
  await expect(made.getByRole('heading', { name: 'Issue desk' })).toBeVisible();
  await expect(made).toContainText('Looks after issues.');
  await expect(page.getByRole('status', { name: 'Warnings' })).toContainText(
    'requires environment variables: GITHUB_TOKEN, LINEAR_API_KEY',
  );
  await made.getByText('What it says').click();
  await expect(made.getByText('Newest first.')).toBeVisible();
  // Nothing is made but the draft.
  expect((await kitbag.ask('GET', '/toolsets')).items).toEqual([]);

  await made.getByRole('link', { name: 'Open in the editor' }).click();
  await expect(page.getByRole('heading', { name: 'New toolset', level: 1 })).toBeVisible();
  await expect(page.getByText('A model drafted this')).toBeVisible();
  await expect(page.getByText('these variables must be set')).toContainText('GITHUB_TOKEN, LINEAR_API_KEY');
  await expect(page.getByRole('textbox', { name: 'Name', exact: true })).toHaveValue('Issue desk');
  // A reload of the editor has it again; so has one after a change.
  await page.reload();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Issue bench');
  await expect.poll(() => page.evaluate(() => JSON.stringify({ ...sessionStorage }))).toContain('Issue bench');
  await page.reload();
  await expect(page.getByRole('textbox', { name: 'Name', exact: true })).toHaveValue('Issue bench');
  expect((await kitbag.ask('GET', '/toolsets')).items).toEqual([]);
  await page.getByRole('button', { name: 'Make the toolset' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/issue-bench`);
  const saved = await kitbag.ask('GET', '/toolsets/issue-bench');
  expect(saved).toMatchObject({ name: 'Issue bench', description: 'Looks after issues.', visibility: 'org' });
  expect(saved.mcpServers.map((one: any) => [one.serverId, one.commandLine, one.env]).sort()).toEqual([
    ['deepwiki', 'https://mcp.deepwiki.com/mcp', {}],
    [
      'github',
      'npx -y @modelcontextprotocol/server-github',
      { GITHUB_PERSONAL_ACCESS_TOKEN: '${ENV:GITHUB_TOKEN}', GITHUB_TOKEN: '${ENV:GITHUB_TOKEN}' },
    ],
    ['linear', 'npx -y @modelcontextprotocol/server-linear', { LINEAR_API_KEY: '${ENV:LINEAR_API_KEY}' }],
  ]);
  const { files } = await kitbag.ask('GET', '/toolsets/issue-bench/skills/github-triage');
  expect(files).toMatchObject([{ path: 'SKILL.md', content: SKILL }]);
  expect(model.unused).toBe(0);
});

test('a secret that is pasted is taken out, and whoever pasted it is told', async ({ kitbag, page, model }) => {
  model.answers(suggests('GitHub it is.', 'mcp.github', 'mcp.made-up'), suggests('As you say.'));
  await kitbag.open(page, '/toolsets/new/builder');
  await begin(page, `${WANTED} My token is ${TOKEN}`);
  const warnings = page.getByRole('status', { name: 'Warnings' });
  await expect(warnings).toContainText('looked like a secret');
  await expect(warnings).toContainText('mcp.made-up');
  await expect(said(page).first()).toContainText('[REDACTED]');
  // A warning outlives a reload: nobody should have missed it.
  await page.reload();
  await expect(said(page).first()).toContainText('[REDACTED]');
  await expect(warnings).toContainText('looked like a secret');

  await message(page).fill(`It is ${TOKEN}, really.`);
  await page.getByRole('button', { name: 'Say it' }).click();
  await expect(said(page)).toHaveCount(4);
  await expect(said(page).nth(2)).toContainText('[REDACTED]');
  await expect(warnings).toContainText('looked like a secret');
  await expect(warnings).not.toContainText('mcp.made-up');
  await expect(page.getByRole('main')).not.toContainText(TOKEN);
  // Neither the model nor the browser has it, and the model has the rest.
  expect(heard(model)).toContain('[REDACTED]');
  expect(heard(model)).not.toContain(TOKEN);
  const stored = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));
  expect(stored).not.toContain(TOKEN);
});

test('what was said is shown as it was kept, even if nothing else can be asked for', async ({
  kitbag,
  page,
  model,
}) => {
  model.answers(suggests('GitHub it is.', 'mcp.github'), suggests('As you say.'));
  await kitbag.open(page, '/toolsets/new/builder');
  await begin(page);
  await expect(said(page)).toHaveCount(2);
  const sessions = '**/toolsets/builder/sessions/*';
  await page.route(sessions, (route) => route.abort());
  await message(page).fill(`It is ${TOKEN}, really.`);
  await message(page).press('Enter');
  await expect(said(page)).toHaveCount(4);
  await expect(said(page).nth(2)).toContainText('It is ghp_[REDACTED], really.');
  await expect(said(page).nth(3)).toContainText('As you say.');
  await expect(page.getByRole('status', { name: 'Warnings' })).toContainText('looked like a secret');
  await expect(page.getByRole('main')).not.toContainText(TOKEN);
  await expect(message(page)).toHaveValue('');
  // What the server has is the same.
  await page.unroute(sessions);
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByRole('button', { name: 'Try again' })).toHaveCount(0);
  await expect(said(page)).toHaveCount(4);
});

test('what must be known of a draft is shown in a tab that did not make it', async ({ kitbag, page, model }) => {
  model.answers(suggests('GitHub it is.', 'mcp.github'), drafts());
  await kitbag.open(page, '/toolsets/new/builder');
  await begin(page);
  await page.getByRole('button', { name: 'Make the draft' }).click();
  const warnings = page.getByRole('status', { name: 'Warnings' });
  await expect(warnings).toContainText('requires environment variables: GITHUB_TOKEN');
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Issue helper' })).toBeVisible();
  await expect(warnings).toContainText('requires environment variables: GITHUB_TOKEN');
});

test('an answer that cannot be used is told, and what was written is still there', async ({ kitbag, page, model }) => {
  const useless: Reply = [{ text: 'I would love to!' }];
  model.answers(useless, useless, suggests('GitHub, then.', 'mcp.github'));
  await kitbag.open(page, '/toolsets/new/builder');
  await begin(page);
  const trouble = page.getByRole('alert');
  await expect(trouble).toContainText('The model’s answer cannot be used');
  await expect(intent(page)).toHaveValue(WANTED);
  await trouble.getByRole('button', { name: 'Try again' }).click();
  await expect(said(page)).toHaveCount(2);

  model.answers(useless, useless, { status: 400, message: 'the stand-in is tired' }, suggests('Gladly.'));
  await page.getByRole('button', { name: 'All 30' }).click();
  await page.getByRole('button', { name: 'Take away GitHub', exact: true }).click();
  await page.getByRole('button', { name: 'Choose Slack', exact: true }).click();
  await message(page).fill('And our channel?');
  await message(page).press('Enter');
  await expect(trouble).toContainText('The model’s answer cannot be used');
  await expect(message(page)).toHaveValue('And our channel?');
  await expect(said(page)).toHaveCount(2);
  await expect(server(preview(page), 'slack')).toBeVisible();
  await trouble.getByRole('button', { name: 'Try again' }).click();
  await expect(trouble).toContainText('The model does not answer');
  await expect(trouble).toContainText('the stand-in is tired');
  await expect(message(page)).toHaveValue('And our channel?');
  // Who goes elsewhere and comes back has it still.
  await page.getByRole('link', { name: 'Chats', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Chats', level: 1 })).toBeVisible();
  await page.goBack();
  await expect(message(page)).toHaveValue('And our channel?');
  await trouble.getByRole('button', { name: 'Try again' }).click();
  await expect(said(page)).toHaveCount(4);
  await expect(message(page)).toHaveValue('');
  await expect(trouble).toHaveCount(0);

  // At the end as well; another model gets what was wanted.
  model.answers(useless, useless);
  await preview(page).getByLabel('Name').fill('Desk');
  await page.getByRole('button', { name: 'Make the draft' }).click();
  await expect(trouble).toContainText('The model’s answer cannot be used');
  await expect(preview(page).getByLabel('Name')).toHaveValue('Desk');
  await trouble.getByRole('button', { name: 'Begin anew' }).click();
  await expect(page).toHaveURL(`${kitbag.url}/toolsets/new/builder`);
  await expect(intent(page)).toHaveValue('And our channel?');
});

test('a reload in the middle goes on', async ({ kitbag, page, model }) => {
  model.answers(suggests('GitHub it is.', 'mcp.github'), suggests('Fetch, too.', 'mcp.fetch'), drafts());
  await kitbag.open(page, '/toolsets/new/builder');
  await begin(page);
  await expect(said(page)).toHaveCount(2);
  await page.getByRole('button', { name: 'All 30' }).click();
  await page.getByRole('button', { name: 'Choose Slack', exact: true }).click();
  await page.getByRole('button', { name: 'Take away GitHub', exact: true }).click();
  await page.reload();
  await expect(said(page)).toHaveCount(2);
  await expect(said(page).last()).toContainText('GitHub it is.');
  // What was chosen and not sent yet, too.
  await expect(server(preview(page), 'slack')).toBeVisible();
  await expect(server(preview(page), 'github')).toHaveCount(0);

  await message(page).fill('Something for pages.');
  await message(page).press('Enter');
  await expect(said(page).last()).toContainText('Fetch, too.');
  await expect(server(preview(page), 'slack')).toBeVisible();
  await page.getByRole('button', { name: 'Make the draft' }).click();
  await expect(page.getByRole('link', { name: 'Open in the editor' })).toBeVisible();
  await page.reload();
  await expect(page.getByRole('heading', { name: 'Issue helper' })).toBeVisible();
  await expect(page.getByRole('status', { name: 'Warnings' })).toContainText('SLACK_BOT_TOKEN');

  // A conversation that there is not.
  await page.goto(`${kitbag.url}/toolsets/new/builder/01a1ec9f-d2db-764e-9b22-01054de0accd`);
  await expect(page.getByRole('alert')).toContainText('There is no such conversation');
  await page.getByRole('button', { name: 'Begin anew' }).click();
  await expect(intent(page)).toBeVisible();
});

test('a conversation that was brought to its end elsewhere says so, and leads to the draft', async ({
  kitbag,
  page,
  model,
}) => {
  model.answers(suggests('GitHub it is.', 'mcp.github'), drafts());
  await kitbag.open(page, '/toolsets/new/builder');
  await begin(page);
  await expect(said(page)).toHaveCount(2);
  const id = new URL(page.url()).pathname.split('/').at(-1)!;
  // By the same person in another tab: nobody else has this conversation.
  const ended = await page.evaluate(async (id) => {
    const headers = { 'content-type': 'application/json' };
    const path = `/v1/orgs/local/toolsets/builder/sessions/${id}/finalize`;
    return (await fetch(path, { method: 'POST', headers, body: '{}' })).status;
  }, id);
  expect(ended).toBe(200);
  await message(page).fill('One thing more.');
  await message(page).press('Enter');
  const trouble = page.getByRole('alert');
  await expect(trouble).toContainText('This conversation is over');
  await expect(message(page)).toHaveValue('One thing more.');
  await trouble.getByRole('button', { name: 'Look at the draft' }).click();
  await expect(page.getByRole('heading', { name: 'Issue helper' })).toBeVisible();
  // What could not be said any more is what the next one begins with.
  await page.getByRole('button', { name: 'Begin anew' }).click();
  await expect(intent(page)).toHaveValue('One thing more.');
});

test('while the model thinks nothing is sent twice, and whoever leaves finds its answer', async ({
  kitbag,
  page,
  model,
}) => {
  const first = new Gate();
  const second = new Gate();
  const held = (gate: Gate, text: string): Reply => [{ hold: gate }, { text: JSON.stringify({ message: text }) }];
  model.answers(held(first, 'Gladly.'), held(second, 'And more.'));
  await kitbag.open(page, '/toolsets/new/builder');
  await begin(page);
  await first.reached;
  await expect(page.getByText('The model is thinking…')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Begin', exact: true })).toBeDisabled();
  await page.getByRole('link', { name: 'Chats', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Chats', level: 1 })).toBeVisible();
  first.release();
  await page.getByRole('button', { name: 'Go on' }).click();
  await expect(said(page).last()).toContainText('Gladly.');

  await message(page).fill('What else?');
  await message(page).press('Enter');
  await second.reached;
  await message(page).press('Enter');
  await expect(page.getByText('The model is thinking…')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Make the draft' })).toBeDisabled();
  await expect(message(page)).not.toBeEditable();
  second.release();
  await expect(said(page)).toHaveCount(4);
  expect(model.questions).toHaveLength(2);
});

test('a model can be named by hand, with its provider in front', async ({ kitbag, page, model }) => {
  model.models.openai = [];
  model.answers(suggests('Gladly.'));
  await kitbag.open(page, '/toolsets/new/builder');
  await page.getByRole('combobox', { name: 'Model' }).selectOption('Another one…');
  const name = page.getByRole('textbox', { name: 'The model’s name' });
  await intent(page).fill(WANTED);
  await name.fill('llama');
  await expect(page.getByText('It begins with anthropic/ or openai/.')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Begin', exact: true })).toBeDisabled();
  await name.fill('openai/org/llama:7b');
  await page.getByRole('button', { name: 'Begin', exact: true }).click();
  await expect(said(page)).toHaveCount(2);
  expect(model.questions[0]!.body.model).toBe('org/llama:7b');
});

base.describe('in an organisation', () => {
  base('without a key it is said how one comes to a model', async ({ kitbag, page, context }) => {
    const ada = await Person.owner(kitbag, 'acme', 'ada@example.org', 'Ada');
    await ada.enter(context);
    await page.goto(`${kitbag.url}/o/acme/toolsets/new/builder`);
    await expect(page.getByText('No model can be asked yet.')).toBeVisible();
    await intent(page).fill(WANTED);
    await page.getByRole('textbox', { name: 'The model’s name' }).fill('anthropic/claude');
    await page.getByRole('button', { name: 'Begin', exact: true }).click();
    const trouble = page.getByRole('alert');
    await expect(trouble).toContainText('There is no key for this model');
    await trouble.getByRole('link', { name: 'Add a model key' }).click();
    await expect(page).toHaveURL(`${kitbag.url}/o/acme/organization?tab=secrets`);
    await expect(page.getByLabel('A key of Anthropic')).toBeVisible();
    await page.goBack();
    await expect(intent(page)).toHaveValue(WANTED);
  });

  base('it is not offered to a member', async ({ kitbag, page, context }) => {
    const ada = await Person.owner(kitbag, 'acme', 'ada@example.org', 'Ada');
    const mia = await ada.brings('acme', 'mia@example.org', 'member', 'Mia');
    await mia.enter(context);
    await page.goto(`${kitbag.url}/o/acme/toolsets`);
    await expect(page.getByRole('heading', { name: 'No toolset is installed yet' })).toBeVisible();
    await expect(page.getByRole('link', { name: /with a model/ })).toHaveCount(0);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('toolset');
    await expect(page.getByRole('option', { name: /^Toolsets/ })).toBeVisible();
    await expect(page.getByRole('option', { name: /with a model/ })).toHaveCount(0);
    await page.goto(`${kitbag.url}/o/acme/toolsets/new/builder`);
    await expect(page.getByRole('heading', { name: 'This is for who manages' })).toBeVisible();
    await expect(intent(page)).toHaveCount(0);
  });
});
