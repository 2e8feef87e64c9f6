// The pictures of the documentation: the main views of a Kitbag that somebody uses, light and dark.
import type { Page } from '@playwright/test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type Example, fill } from './example/index.ts';
import { expect, ROOT, test } from './kit.ts';

/** A picture is in the repository for good. */
const LARGEST = 150_000;

interface Picture {
  path: string;
  /** What must be seen before it is taken. */
  shows: (page: Page) => Promise<void>;
}

const text = (words: string | RegExp) => async (page: Page) =>
  expect(page.getByRole('main').getByText(words).first()).toBeVisible();

const pictures = ({ chat, drawn, server }: Example): Record<string, Picture> => ({
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
  connect: { path: '/settings', shows: text('KITBAG_TOKEN') },
});

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme, contextOptions: { reducedMotion: 'reduce' } });

    test(`pictures, ${colorScheme}`, async ({ kitbag, page }) => {
      test.slow();
      const example = await fill(kitbag);
      await kitbag.open(page);
      const only = process.env.KITBAG_PICTURES?.split(',');
      for (const [name, { path, shows }] of Object.entries(pictures(example))) {
        if (only && !only.includes(name)) continue;
        await test.step(name, async () => {
          await page.goto(kitbag.url + path);
          await shows(page);
          const file = join(ROOT, `docs/pictures/${name}-${colorScheme}.png`);
          await page.screenshot({ path: file, animations: 'disabled' });
          expect(statSync(file).size, `${name} is small`).toBeLessThan(LARGEST);
        });
      }
    });
  });
}
