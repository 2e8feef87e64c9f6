// The pictures of the documentation: the main views of a Kitbag that somebody uses, light and dark.
import type { Page } from '@playwright/test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { demo } from './demo.ts';
import { type Example, fill } from './example/index.ts';
import { organize } from './example/people.ts';
import { type Work, work } from './example/runs.ts';
import { expect, Kitbag, ROOT, test } from './kit.ts';
import { Model } from './model.ts';

/** A picture is in the repository for good. */
const LARGEST = 150_000;

interface Picture {
  path: string;
  /** What must be seen before it is taken. */
  shows: (page: Page) => Promise<void>;
}

const text = (words: string | RegExp) => async (page: Page) =>
  expect(page.getByRole('main').getByText(words).first()).toBeVisible();

const pictures = ({ chat, drawn, server }: Example, { done }: Work): Record<string, Picture> => ({
  home: { path: '/', shows: text('Recent chats') },
  chat: { path: `/chats/${chat}`, shows: text('Run Command') },
  result: {
    path: `/chats/${drawn}`,
    shows: async (page) => {
      const frame = page.frameLocator('iframe').first();
      await expect(frame.getByText('October')).toBeVisible();
    },
  },
  toolset: { path: '/toolsets/app-builder', shows: text('Run Command') },
  servers: { path: `/servers/${encodeURIComponent(server)}`, shows: text('Call the tool') },
  tools: { path: '/tools', shows: text(/Sales by Month/) },
  files: {
    path: `/files/${chat}/site/index.html`,
    shows: async (page) => {
      await expect(page.getByRole('treeitem', { name: 'style.css' })).toBeVisible();
      await text('Bread & Butter')(page);
    },
  },
  run: { path: `/runs/${done}`, shows: text('The page has the list now.') },
  executors: { path: '/executors', shows: text('workshop') },
  connect: { path: '/settings', shows: text('KITBAG_TOKEN') },
});

/** Views of people, as the owner of an organisation sees them; the first before she is let in. */
const ofPeople: Record<string, Picture> = {
  'sign-in': { path: '/sign-in', shows: text('Password') },
  members: { path: '/organization', shows: text('Dorothy Vaughan') },
  audit: { path: '/organization?tab=audit', shows: text(/^organization\.rename/) },
};

/** A chat in which a model has written a file, and waits for a yes to another call. */
async function turn(kitbag: Kitbag, model: Model): Promise<string> {
  const { items } = await kitbag.ask('GET', '/available-tools');
  const append = items.find((tool: any) => tool.id === 'demo:append').modelName as string;
  model.answers([
    { thinking: 'The list first, then the note.' },
    { text: 'I put **milk** on the list, and write the note.' },
    { call: append, args: { path: 'list.md', line: '- milk' } },
    { call: 'write_file', args: { path: 'notes.md', content: '# Groceries\n\nThe baker is closed on Mondays.\n' } },
  ]);
  const { id } = await kitbag.ask('POST', '/chats', { title: 'Groceries' });
  // The turn goes on when nobody listens; its first event says that it has begun.
  const answered = await fetch(`${kitbag.url}/v1/orgs/local/chats/${id}/stream`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${kitbag.token}` },
    body: JSON.stringify({ content: 'Put milk on my list, and note that the baker is closed on Mondays.' }),
  });
  await answered.body!.cancel();
  return id as string;
}

function wanted(pictures: Record<string, Picture>): [string, Picture][] {
  const only = process.env.KITBAG_PICTURES?.split(',');
  return Object.entries(pictures).filter(([name]) => only?.includes(name) ?? true);
}

async function take(page: Page, kitbag: Kitbag, name: string, { path, shows }: Picture): Promise<void> {
  await page.goto(kitbag.url + path);
  await shows(page);
  const file = join(ROOT, `docs/pictures/${name}.png`);
  await page.screenshot({ path: file, animations: 'disabled' });
  expect(statSync(file).size, `${name} is small`).toBeLessThan(LARGEST);
}

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme, contextOptions: { reducedMotion: 'reduce' } });

    test(`pictures, ${colorScheme}`, async ({ kitbag, page }) => {
      test.slow();
      const example = await fill(kitbag);
      const atWork = await work(kitbag, example.chat);
      await kitbag.open(page);
      for (const [name, picture] of wanted(pictures(example, atWork)))
        await test.step(name, () => take(page, kitbag, `${name}-${colorScheme}`, picture));
      await atWork.executor.disconnect();
    });

    test(`pictures of a turn, ${colorScheme}`, async ({ page }) => {
      if (!wanted({ turn: { path: '', shows: text('') } }).length) return;
      const model = await Model.start();
      const kitbag = await Kitbag.start([...model.flags, '--model', 'anthropic/claude-stand-in']);
      await kitbag.install(demo());
      const chat = await turn(kitbag, model);
      await kitbag.open(page);
      await take(page, kitbag, `turn-${colorScheme}`, {
        path: `/chats/${chat}`,
        shows: async (page) => {
          await text(/1\.2\.0, trusted/)(page);
          await text('Open in workspace')(page);
          await expect(page.getByText('Waits for a yes or no.')).toBeInViewport();
        },
      });
      await kitbag.stop();
      await model.stop();
    });

    test(`pictures of people, ${colorScheme}`, async ({ kitbag, page, context }) => {
      test.slow();
      const ada = await organize(kitbag);
      for (const [name, picture] of wanted(ofPeople)) {
        if (name !== 'sign-in') await ada.enter(context);
        await test.step(name, () => take(page, kitbag, `${name}-${colorScheme}`, picture));
      }
    });
  });
}
