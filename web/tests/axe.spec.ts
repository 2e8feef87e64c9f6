import AxeBuilder from '@axe-core/playwright';
import type { Page } from '@playwright/test';
import { type Example, fill } from './example/index.ts';
import { organize } from './example/people.ts';
import { type Work, work } from './example/runs.ts';
import { expect, Kitbag, test } from './kit.ts';
import { Model } from './model.ts';

/** What each view shows when it is there. */
const views = ({ chat, server }: Example, { done, running }: Work): Record<string, string> => ({
  home: '/',
  chats: '/chats',
  chat: `/chats/${chat}`,
  files: `/files/${chat}`,
  code: `/files/${chat}/site/index.html`,
  markdown: `/files/${chat}/notes.md`,
  toolsets: '/toolsets',
  toolset: '/toolsets/app-builder',
  'new toolset': '/toolsets/new',
  'edit a toolset': '/toolsets/app-builder/edit',
  builder: '/toolsets/new/builder',
  'no such conversation': '/toolsets/new/builder/01a1ec9f-d2db-764e-9b22-01054de0accd',
  gallery: '/gallery',
  published: '/gallery/sales',
  servers: '/servers',
  server: `/servers/${encodeURIComponent(server)}`,
  tools: '/tools',
  tool: '/tools/app-builder%3Awrite_file',
  runs: '/runs',
  'no runs': '/runs?state=timed_out',
  'a run': `/runs/${done}`,
  'a run that goes on': `/runs/${running}`,
  'its files': `/runs/${done}?tab=files`,
  'what was asked for': `/runs/${done}?tab=asked`,
  'two runs': `/runs/${done}?tab=compare&with=${running}`,
  'no such run': '/runs/01a1ec9f-d2db-764e-9b22-01054de0accd',
  executors: '/executors',
  connect: '/settings?tab=connect',
  tokens: '/settings?tab=tokens',
  about: '/settings?tab=server',
  defaults: '/settings?tab=defaults',
  audit: '/settings?tab=audit',
  appearance: '/settings?tab=appearance',
  nothing: '/chats/nothing/at/all',
});

/** Everything that was asked for has come. */
async function settled(page: Page) {
  await expect(page.getByRole('main')).toBeVisible();
  await page.waitForFunction(
    () => !document.querySelector('main [aria-label^="Loading"]') && document.querySelector('main h1, main h2'),
  );
}

/** What is serious or critical, each with where it is. What is framed is the tools' own. */
async function findings(page: Page, name: string, only?: string[]): Promise<string[]> {
  const builder = new AxeBuilder({ page }).exclude('iframe');
  const { violations } = await (only ? builder.withRules(only) : builder).analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${name}: ${id} at ${target.join(' ')}: ${failureSummary}`),
    );
}

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    // In the dark only the colours are others.
    const only = colorScheme === 'dark' ? ['color-contrast'] : undefined;
    test.use({ colorScheme, contextOptions: { reducedMotion: 'reduce' } });

    test(`no view keeps anybody out (${colorScheme})`, async ({ kitbag, page }) => {
      // As many views as there are.
      test.setTimeout(420_000);
      const example = await fill(kitbag);
      const atWork = await work(kitbag, example.chat);
      await kitbag.ask('POST', '/toolsets/sales/publish', { publicSlug: 'sales' });
      await kitbag.open(page);
      const found: string[] = [];
      for (const [name, path] of Object.entries(views(example, atWork))) {
        await page.goto(kitbag.url + path);
        await settled(page);
        found.push(...(await findings(page, name, only)));
      }
      // What is written of a toolset, and what is wrong with it.
      await page.goto(`${kitbag.url}/toolsets/new`);
      await page.getByRole('button', { name: 'Add a server' }).click();
      await page.getByRole('button', { name: 'New skill' }).click();
      await page.getByLabel('Skill id').fill('no id!');
      await page.getByRole('button', { name: 'Make the toolset' }).click();
      await expect(page.getByText('It is not saved')).toBeVisible();
      await expect(page.getByLabel('The text of SKILL.md')).toBeVisible();
      found.push(...(await findings(page, 'editor', only)));
      await page.goto(`${kitbag.url}/toolsets/app-builder`);
      await page.getByRole('button', { name: 'Publish', exact: true }).click();
      await expect(page.getByRole('region', { name: 'What everybody will see' })).toBeVisible();
      found.push(...(await findings(page, 'publish', only)));
      await page.goto(`${kitbag.url}/gallery/sales`);
      await page.getByRole('button', { name: 'Adopt', exact: true }).click();
      await expect(page.getByRole('dialog')).toBeVisible();
      found.push(...(await findings(page, 'adopt', only)));
      await page.goto(`${kitbag.url}/runs?new=1`);
      await page.getByText('More: name').click();
      await page.getByRole('button', { name: 'Start the run' }).click();
      await expect(page.getByText('must not be empty')).toBeVisible();
      found.push(...(await findings(page, 'new run', only)));
      await page.goto(`${kitbag.url}/executors?pair=1`);
      await page.getByRole('button', { name: 'Make a token' }).click();
      await expect(page.getByRole('timer')).toBeVisible();
      found.push(...(await findings(page, 'pairing', only)));
      await atWork.executor.disconnect();
      await page.goto(kitbag.url);
      await settled(page);
      await page.keyboard.press('Control+k');
      await page.keyboard.type('file');
      await expect(page.getByRole('option').first()).toBeVisible();
      found.push(...(await findings(page, 'palette', only)));
      await page.keyboard.press('Escape');
      await expect(page.getByRole('dialog')).toHaveCount(0);
      await page.keyboard.press('?');
      await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible();
      found.push(...(await findings(page, 'keys', only)));
      await page.setViewportSize({ width: 390, height: 800 });
      await page.goto(kitbag.url);
      await settled(page);
      await page.getByRole('button', { name: 'Menu' }).click();
      found.push(...(await findings(page, 'menu', only)));
      expect(found).toEqual([]);
    });
  });
}

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    const only = colorScheme === 'dark' ? ['color-contrast'] : undefined;
    test.use({ colorScheme, contextOptions: { reducedMotion: 'reduce' } });

    test(`no view of people keeps anybody out (${colorScheme})`, async ({ kitbag, page, context }) => {
      test.setTimeout(180_000);
      const ada = await organize(kitbag);
      const found: string[] = [];
      const look = async (name: string, path: string) => {
        await page.goto(kitbag.url + path);
        await settled(page);
        found.push(...(await findings(page, name, only)));
      };
      await look('sign-in', '/sign-in?error=issuer_refused');
      const { link } = await ada.invite('acme', 'eve@acme.example', 'member');
      await look('join', new URL(link).pathname + new URL(link).hash);
      await ada.enter(context);
      for (const tab of ['members', 'settings', 'secrets', 'audit']) await look(tab, `/organization?tab=${tab}`);
      await page.locator('summary').first().click();
      found.push(...(await findings(page, 'a line of the audit', only)));
      await look('tokens of people', '/settings?tab=tokens');
      await look('you', '/you');
      await look('no such organisation', '/o/nobody/chats');
      await look('home', '/');
      for (const name of [/^Organisation:/, /^You:/]) {
        await page.getByRole('button', { name }).click();
        await expect(page.getByRole('menu')).toBeVisible();
        found.push(...(await findings(page, `menu ${name}`, only)));
        await page.keyboard.press('Escape');
      }
      await ada.ask('POST', '/v1/sign-out');
      await expect(page.getByRole('dialog', { name: 'Sign in again' })).toBeVisible();
      found.push(...(await findings(page, 'again', only)));
      expect(found).toEqual([]);
    });
  });
}

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    const only = colorScheme === 'dark' ? ['color-contrast'] : undefined;
    test.use({ colorScheme, contextOptions: { reducedMotion: 'reduce' } });

    test(`no step of the builder keeps anybody out (${colorScheme})`, async ({ page }) => {
      const model = await Model.start();
      const kitbag = await Kitbag.start(model.flags);
      const says = (value: unknown) => [{ text: JSON.stringify(value) }];
      const found: string[] = [];
      await kitbag.open(page, '/toolsets/new/builder');
      await page.getByLabel('What should the toolset do?').fill('Look after issues; password=hunter2-hunter2');
      await page.getByLabel('Model', { exact: false }).selectOption('Another one…');
      await page.getByLabel('The model’s name').fill('llama');
      await expect(page.getByText('It begins with anthropic/')).toBeVisible();
      found.push(...(await findings(page, 'first step', only)));
      await page.getByLabel('The model’s name').fill('openai/stand-in');
      model.answers(says({ message: 'Take these.', suggestedComponentKeys: ['mcp.github', 'mcp.http-generic'] }));
      await page.getByRole('button', { name: 'Begin', exact: true }).click();
      await expect(page.getByText('looked like a secret')).toBeVisible();
      await page.getByRole('button', { name: 'All 30' }).click();
      found.push(...(await findings(page, 'conversation', only)));
      model.answers({ status: 400 }, says({ name: 'Issues', description: 'For issues.' }));
      await page.getByLabel('What do you want to say?').fill('More.');
      await page.keyboard.press('Enter');
      await expect(page.getByText('The model does not answer')).toBeVisible();
      found.push(...(await findings(page, 'trouble', only)));
      await page.getByRole('button', { name: 'Make the draft' }).click();
      await expect(page.getByRole('link', { name: 'Open in the editor' })).toBeVisible();
      found.push(...(await findings(page, 'draft', only)));
      await page.getByRole('link', { name: 'Open in the editor' }).click();
      await expect(page.getByText('A model drafted this')).toBeVisible();
      found.push(...(await findings(page, 'editor of a draft', only)));
      expect(found).toEqual([]);
      await kitbag.stop();
      await model.stop();
    });
  });
}

test('nobody is kept out before being let in', async ({ kitbag, page }) => {
  await page.goto(kitbag.url);
  expect(await findings(page, 'locked')).toEqual([]);
});
