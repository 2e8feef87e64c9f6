// Apps of MCP servers: shown, fed, heard, and held back.
import { resolve } from 'node:path';
import { expect, test, type Kitbag } from './kit.ts';
import { Listener } from './listener.ts';
import { call, chat } from './toolset.ts';

const SERVER = resolve(import.meta.dirname, 'app-server.mjs');
let elsewhere: Listener;
test.beforeEach(async () => {
  elsewhere = await Listener.start();
});
test.afterEach(async () => elsewhere.stop());

async function shown(kitbag: Kitbag, confirm: boolean): Promise<string> {
  await kitbag.ask('POST', '/mcp-servers', {
    id: 'apps',
    command: process.execPath,
    args: [SERVER, elsewhere.url, kitbag.url],
    sandbox: false,
    requiresConfirmation: confirm,
  });
  await kitbag.ask('POST', '/mcp-servers/apps~apps/test', {});
  const inChat = await chat(kitbag);
  return `/chats/${inChat}/calls/${(await call(kitbag, inChat, 'mcp:apps~apps:show', { text: 'hello' })).id}`;
}

test('an app gets its result, calls tools of its server that are for apps, and reaches nothing', async ({
  kitbag,
  page,
  context,
}) => {
  const url = await shown(kitbag, false);
  await kitbag.open(page, url);
  const app = page.frameLocator('iframe[title^=App]').frameLocator('iframe');
  await expect(app.locator('#said')).toHaveText('result: show says hello');
  await expect(page.locator('iframe')).toHaveCSS('height', '444px');
  // R2, R3, R4 for apps.
  await expect(app.locator('#tried')).not.toBeEmpty();
  expect(JSON.parse((await app.locator('#tried').textContent()) ?? '')).toEqual({
    host: 'Kitbag',
    origin: 'null',
    top: 'SecurityError',
    around: 'SecurityError',
    cookie: 'SecurityError',
    storage: 'SecurityError',
    fetch: 'TypeError',
    api: 'TypeError',
    popup: 'null',
    away: 'SecurityError',
  });
  await app.getByRole('button', { name: 'Ask again' }).click();
  await expect(app.locator('#said')).toHaveText('called: echo says from the app');
  await app.getByRole('button', { name: 'Ask hidden' }).click();
  await expect(app.locator('#said')).toContainText('refused: an app may not call "hidden"');

  // An address is opened only if somebody wants it.
  await app.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('dialog').getByText('https://example.org/opened').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Do not open' }).click();
  await expect(app.locator('#said')).toHaveText('not opened');
  expect(context.pages()).toHaveLength(1);
  expect(page.url()).toBe(kitbag.url + url);
  expect(elsewhere.asked).toEqual([]);
});

test('what needs a yes needs one when an app asks', async ({ kitbag, page }) => {
  await kitbag.open(page, await shown(kitbag, true));
  const app = page.frameLocator('iframe[title^=App]').frameLocator('iframe');
  await expect(app.locator('#said')).toHaveText('result: show says hello');
  await app.getByRole('button', { name: 'Ask again' }).click();
  await expect(page.getByText('The app asks to call mcp:apps~apps:echo')).toBeVisible();
  await expect(app.locator('#said')).toHaveText('result: show says hello');
  await page.getByRole('button', { name: 'Deny' }).click();
  await expect(app.locator('#said')).toContainText('failed: ');
  await app.getByRole('button', { name: 'Ask again' }).click();
  await page.getByRole('button', { name: 'Allow' }).click();
  await expect(app.locator('#said')).toHaveText('called: echo says from the app');
});

test('R13: only the app is heard, and only in the words of the protocol', async ({ kitbag, page }) => {
  const url = await shown(kitbag, false);
  await kitbag.open(page, url);
  const app = page.frameLocator('iframe[title^=App]').frameLocator('iframe');
  await expect(app.locator('#said')).toHaveText('result: show says hello');
  const asked: string[] = [];
  page.on('request', (request) => request.method() === 'POST' && asked.push(request.url()));
  const message = {
    jsonrpc: '2.0',
    id: 99,
    method: 'tools/call',
    params: { name: 'echo', arguments: { text: 'forged' } },
  };
  // From the page's own window, from a frame that is not the app's, and from the app in other words.
  await page.evaluate((forged) => {
    window.postMessage(forged, '*');
    const other = document.createElement('iframe');
    document.body.append(other);
    window.dispatchEvent(
      new MessageEvent('message', { data: forged, source: other.contentWindow, origin: location.origin }),
    );
  }, message);
  const inner = page.frames().find((frame) => frame.url().endsWith('/app'))!;
  await inner.evaluate((forged) => {
    parent.postMessage({ ...forged, jsonrpc: '1.0' }, '*');
    parent.postMessage(JSON.stringify(forged), '*');
    parent.postMessage({ jsonrpc: '2.0', id: 98, method: 'tools/call', params: { name: 7 } }, '*');
    top!.postMessage(forged, '*');
  }, message);
  // What the app itself says in the protocol's words is heard after all of that, and is the only call.
  await app.getByRole('button', { name: 'Ask again' }).click();
  await expect(app.locator('#said')).toHaveText('called: echo says from the app');
  expect(asked).toHaveLength(1);
});
