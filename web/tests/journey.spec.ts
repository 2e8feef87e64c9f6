// All of it in one go, as somebody does who has just installed Kitbag: nothing but the page is used.
import type { Page } from '@playwright/test';
import { join } from 'node:path';
import { expect, test } from './kit.ts';
import { zipFolder } from './zip.ts';

const SALES = join(import.meta.dirname, 'example/sales');

async function choose(page: Page, button: string, name: string, bytes: Uint8Array | string): Promise<void> {
  const chooser = page.waitForEvent('filechooser');
  await page.getByRole('button', { name: button }).first().click();
  await (await chooser).setFiles({ name, mimeType: 'application/octet-stream', buffer: Buffer.from(bytes) });
}

test('from an empty folder to a chart, a changed file, a branch and another name', async ({ kitbag, page }) => {
  await kitbag.open(page);
  await page.getByRole('link', { name: 'Import a toolset' }).first().click();
  await choose(page, 'Choose a file', 'sales.zip', zipFolder(SALES));
  await page.getByRole('dialog').getByRole('button', { name: 'Install', exact: true }).click();
  await page.getByRole('dialog', { name: 'Installed' }).getByRole('button', { name: 'Open it' }).click();
  await expect(page.getByRole('listitem', { name: 'Sales by Month' })).toBeVisible();

  // A chat, and a file for it.
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Chats' }).click();
  await page.getByRole('button', { name: 'New chat' }).first().click();
  await page.getByRole('link', { name: 'Files' }).click();
  await choose(page, 'Upload files', 'sales.csv', 'month,amount\nMay,10\nJune,20\n');
  await expect(page.getByRole('treeitem', { name: 'sales.csv' })).toBeVisible();
  await page.goBack();

  // The tool, by its form; what it drew is there with the data.
  await page.getByRole('tab', { name: 'Run a tool' }).click();
  await page.getByRole('combobox', { name: 'Tool to run' }).fill('by_month');
  await page.keyboard.press('Enter');
  const form = page.getByRole('region', { name: 'What comes next' });
  await form.getByRole('textbox', { name: 'path', exact: true }).fill('sales.csv');
  await form.getByRole('button', { name: 'Run' }).click();
  const card = page.getByRole('article', { name: /^Call of Sales by Month: Done/ });
  const chart = card.frameLocator('iframe');
  await expect(chart.getByText('June')).toBeVisible();

  // The file is changed, and the call made again beside the first one.
  const chat = page.url();
  await page.getByRole('link', { name: 'Files' }).click();
  await page.getByRole('treeitem', { name: 'sales.csv' }).click();
  await page.getByRole('textbox', { name: 'The text of sales.csv' }).click();
  await page.keyboard.press('ControlOrMeta+End');
  await page.keyboard.type('July,30');
  await page.keyboard.press('ControlOrMeta+s');
  await expect(page.getByText('Saved', { exact: true })).toBeVisible();
  await page.goto(chat);
  await card.getByRole('button', { name: 'Run again as a branch' }).click();
  const branches = card.getByRole('group', { name: 'Branches' });
  await expect(branches).toContainText('2 / 2');
  // It began where the first one did, before the file was changed.
  await expect(chart.getByText('June')).toBeVisible();
  await expect(chart.getByText('July')).toBeHidden();
  await card.getByRole('button', { name: 'The branch before' }).click();
  await expect(branches).toContainText('1 / 2');
  await page.getByRole('link', { name: 'Files' }).click();
  await page.getByRole('treeitem', { name: 'sales.csv' }).click();
  await expect(page.getByRole('textbox', { name: 'The text of sales.csv' })).toContainText('July,30');

  // Another name for the tool, which is then the name everywhere.
  await page.goto(`${kitbag.url}/toolsets/sales`);
  await page
    .getByRole('listitem', { name: 'Sales by Month' })
    .getByRole('button', { name: /Change/ })
    .click();
  const editor = page.getByRole('dialog');
  await editor.getByLabel('Name', { exact: true }).fill('Turnover');
  await editor.getByRole('button', { name: 'Save' }).click();
  await expect(page.getByRole('listitem', { name: 'Turnover' })).toBeVisible();
  await page.goto(chat);
  await expect(page.getByRole('article', { name: /^Call of Turnover: Done/ })).toBeVisible();
});
