// Toolsets whose tools run in containers alone: their images are had from the page, too, and how far that is can be seen.
import { zipSync } from 'fflate';
import { Engine } from './engine.ts';
import { Kitbag, expect, test } from './kit.ts';

const MANIFEST = `id: shapes
name: Shapes
version: "1.0.0"
containers:
  - id: draw
    image: registry.example/draw:1
    tools: [{id: circle, command: [/bin/draw], input_schema: {type: object}}]
`;

test('images are fetched from the page, which shows how far that is', async ({ page }) => {
  const engine = await Engine.start();
  const kitbag = await Kitbag.start([], '', { DOCKER_HOST: engine.host });
  try {
    await kitbag.open(page, '/toolsets');
    await page.getByRole('button', { name: 'Import', exact: true }).click();
    const picking = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'Choose a file' }).click();
    const dialog = page.getByRole('dialog');
    const buffer = Buffer.from(zipSync({ 'toolset.yaml': new TextEncoder().encode(MANIFEST) }));
    await (await picking).setFiles({ name: 'shapes.zip', mimeType: 'application/zip', buffer });
    await dialog.getByText('Trust it as it is').click();
    const sent = page.waitForRequest((request) => request.url().includes('images='));
    await dialog.getByRole('button', { name: 'Install and trust' }).click();
    expect(new URL((await sent).url()).searchParams.get('images')).toBe('{"draw":null}');
    await expect(dialog.getByRole('status')).toContainText('draw: 0a1b: Downloading 2500 of 10000 kB');
    await dialog.getByRole('button', { name: 'Go on in the background' }).click();

    await page.goto(`${kitbag.url}/toolsets/shapes`);
    const needs = page.getByRole('region', { name: 'What its tools need' });
    await expect(needs).toContainText('registry.example/draw:1');
    await needs.getByRole('button', { name: 'Prepare' }).click();
    await expect(needs.getByRole('status')).toContainText('draw: 0a1b: Downloading 2500 of 10000 kB');
    engine.finish();
    await expect(needs.getByRole('status')).toHaveText('Its image is there.');
  } finally {
    await kitbag.stop();
    engine.stop();
  }
});
