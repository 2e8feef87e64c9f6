import { expect, test } from './kit.ts';

test('an address that was printed lets a browser in, and leaves no token behind', async ({ kitbag, page }) => {
  await kitbag.open(page);
  await expect(page).toHaveURL(`${kitbag.url}/`);
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible();
});

test('a browser that was not let in is told how, and can enter a token', async ({ kitbag, page }) => {
  await page.goto(`${kitbag.url}/toolsets`);
  await expect(page.getByRole('heading', { name: 'This browser has not been let in yet' })).toBeVisible();
  await page.getByLabel('Or enter a token here').fill(kitbag.token);
  await page.getByRole('button', { name: 'Let me in' }).click();
  await expect(page.getByRole('navigation', { name: 'Main' })).toBeVisible();
});

test('every view can be reached by its link, loaded again and gone back from', async ({ kitbag, page }) => {
  await kitbag.open(page);
  for (const [name, path] of Object.entries({
    Toolsets: '/toolsets',
    'MCP servers': '/servers',
    Tools: '/tools',
    Settings: '/settings',
    Chats: '/chats',
  })) {
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true }).click();
    await expect(page).toHaveURL(kitbag.url + path);
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
    await page.reload();
    await expect(page.getByRole('link', { name, exact: true })).toHaveAttribute('aria-current', 'page');
  }
  await page.goBack();
  await expect(page).toHaveURL(`${kitbag.url}/settings`);
});

test('who uses keys alone can go past the ways to the content', async ({ kitbag, page }) => {
  await kitbag.open(page, '/toolsets');
  await expect(page.getByRole('heading', { name: 'Toolsets', exact: true })).toBeVisible();
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to the content' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('main')).toBeFocused();
});
