import { expect, test } from './kit.ts';

test('everything is found and opened by keys alone', async ({ kitbag, page }) => {
  const chat = await kitbag.ask('POST', '/chats', { title: 'Plan the garden' });
  await kitbag.open(page);
  const field = page.getByRole('combobox', { name: 'Search' });
  const chosen = page.getByRole('dialog').getByRole('option', { selected: true });
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();

  await page.keyboard.press('Control+k');
  await expect(field).toBeFocused();
  await page.keyboard.type('gardn');
  await expect(chosen).toHaveText('Plan the garden');
  await expect(field).toHaveAttribute('aria-activedescendant', (await chosen.getAttribute('id'))!);
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(`${kitbag.url}/chats/${chat.id}`);
  await expect(field).toHaveCount(0);

  // A tool by its id, and the arrow keys around the end.
  await page.keyboard.press('Control+k');
  await page.keyboard.type('read_file');
  await expect(chosen).toContainText('read_file');
  // What the chat's view can do with it is there when that is, and may come first.
  await expect(page.getByRole('option', { name: 'Run Read File in this chat' })).toBeVisible();
  const first = await chosen.textContent();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowDown');
  await expect(chosen).toHaveText(first!);
  await page.keyboard.press('Escape');
  await expect(field).toHaveCount(0);

  // What was used last comes first.
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('group', { name: 'Recent' }).getByRole('option').first()).toHaveText('Plan the garden');
  await page.keyboard.type('zzzz');
  await expect(page.getByText('Nothing is called “zzzz”.')).toBeVisible();
  await page.keyboard.press('Control+k');
  await expect(field).toHaveCount(0);
});

test('a view offers what can be done in it, for as long as it is shown', async ({ kitbag, page }) => {
  await kitbag.open(page, '/settings?tab=tokens');
  await expect(page.getByRole('button', { name: 'New token' })).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('new token');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog', { name: 'New token' })).toBeVisible();
  await page.keyboard.press('Escape');
  await page.getByRole('tab', { name: 'Appearance' }).click();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('new token');
  await expect(page.getByRole('option', { name: 'New token' })).toHaveCount(0);
});

test('keys lead to the views, and nowhere while somebody writes', async ({ kitbag, page }) => {
  await kitbag.open(page);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  await page.keyboard.press('g');
  await page.keyboard.press('p');
  await expect(page).toHaveURL(`${kitbag.url}/settings`);
  // Whoever listens is at the heading.
  await expect(page.getByRole('heading', { level: 1, name: 'Settings' })).toBeFocused();
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toContainText('Go to Toolsets');
  await page.keyboard.press('Escape');
  await page.getByRole('tab', { name: 'Tokens' }).click();
  await page.getByRole('button', { name: 'New token' }).click();
  await page.getByLabel('What it is for').fill('');
  await page.keyboard.type('?gc');
  await expect(page.getByLabel('What it is for')).toHaveValue('?gc');
  await expect(page).toHaveURL(/settings/);
});

test('a key that is pressed right after the palette closed is not lost', async ({ kitbag, page }) => {
  await kitbag.open(page);
  await expect(page.getByRole('heading', { level: 1 })).toBeVisible();
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('combobox', { name: 'Search' })).toBeFocused();
  // In one go, as between Escape and the frame after it: the field of the closed dialog has the focus still.
  const was = await page.evaluate(() => {
    document.querySelector<HTMLDialogElement>('dialog[open]')!.close();
    const target = document.activeElement!;
    target.dispatchEvent(new KeyboardEvent('keydown', { key: '?', bubbles: true, composed: true, cancelable: true }));
    return target.tagName;
  });
  expect(was).toBe('INPUT');
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible();
  await page.keyboard.press('Escape');

  // And as somebody who is quick presses them.
  for (let times = 0; times < 5; times += 1) {
    await page.keyboard.press('Control+k');
    await expect(page.getByRole('combobox', { name: 'Search' })).toBeFocused();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+k');
    await expect(page.getByRole('combobox', { name: 'Search' })).toBeFocused();
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible();
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toBeVisible();
    await page.keyboard.press('Escape');
  }
});

test('a session that ends leads to the page that says how to come back', async ({ kitbag, page }) => {
  const made = await kitbag.ask('POST', '/tokens', { name: 'visitor', scopes: ['use', 'manage'] });
  await page.goto(`${kitbag.url}/?token=${made.secret}`);
  await expect(page.getByRole('heading', { level: 1, name: 'Kitbag' })).toBeVisible();
  await kitbag.ask('DELETE', `/tokens/${made.id}`);
  await page.keyboard.press('g');
  await page.keyboard.press('p');
  await expect(page.getByRole('heading', { name: 'This browser has not been let in yet' })).toBeVisible();
});
