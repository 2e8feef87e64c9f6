// What tools gave an agent, shown by the renderers that they had when the run was made. In place of an agent a test says what happened.
import type { Page } from '@playwright/test';
import { join } from 'node:path';
import { Executor } from './executor.ts';
import { expect, type Kitbag, ROOT, test } from './kit.ts';
import { zip } from './toolset.ts';
import { zipFolder } from './zip.ts';

const appBuilder = () => zipFolder(join(ROOT, 'examples/app-builder'));
const usage = { inputTokens: 12, outputTokens: 3 };
const call = (page: Page, tool: string) => page.getByRole('article', { name: `Call of ${tool}: Done`, exact: true });

/** A run with a toolset, taken by an executor that tells of calls as they are told. */
async function begin(kitbag: Kitbag, toolsetId: string | undefined, prompt = 'Do it.') {
  const executor = await Executor.start(kitbag);
  const config = { prompt, engine: { id: 'gateway.claude.v2' }, toolsetId };
  const run: string = (await kitbag.ask('POST', '/agent-runs', { config })).id;
  const { id } = await executor.take();
  let calls = 0;
  const did = (tool: string, input: unknown, output: unknown, isError = false) => {
    const callId = `c${++calls}`;
    return executor.tell(
      id,
      { kind: 'tool_call', callId, tool, input },
      { kind: 'tool_result', callId, output, isError },
    );
  };
  const say = (...texts: string[]) => executor.tell(id, ...texts.map((text) => ({ kind: 'text', text })));
  const end = (files?: Record<string, string>) =>
    executor.end(id, { state: 'succeeded', output: 'Done.', usage }, files);
  return { run, did, say, end, executor };
}

/** What an engine has of a value that a tool returned: its JSON as a text. */
const blocks = (value: unknown) => [{ type: 'text', text: JSON.stringify(value) }];

test('the tools of a toolset are shown as its manifest and its overrides say', async ({ kitbag, page }) => {
  await kitbag.install(appBuilder());
  const shown = { renderer: 'document', rendererConfig: { content: 'It **says** $return.output' } };
  await kitbag.ask('PUT', '/toolsets/app-builder/overrides/run_command', shown);
  const { run, did, end, executor } = await begin(kitbag, 'app-builder');
  await kitbag.open(page, `/runs/${run}`);

  // A file that was written has its text in the arguments; `code` with `file: $args.path`.
  const text = '# Bread\n\nMonday\n';
  await did('mcp__kitbag__write_file', { path: 'notes.md', content: text }, blocks({ written: 'notes.md', size: 16 }));
  const written = call(page, 'write_file').getByRole('region', { name: 'notes.md' });
  await expect(written.getByRole('textbox', { name: 'notes.md' })).toContainText('Monday');
  await expect(written).not.toContainText('As the run left it');

  // An expression in a text, and Markdown.
  await did('mcp__kitbag__run_command', { command: 'ls' }, blocks({ output: 'notes.md', exit_code: 0 }));
  const listed = call(page, 'run_command');
  await expect(listed.locator('strong', { hasText: 'says' })).toBeVisible();
  await expect(listed).toContainText('It says notes.md');

  // One that was read, of which the engine kept nothing: by its shape, until there is a state that the run left.
  await did('mcp__kitbag__read_file', { path: 'plan.txt' }, 'read');
  const read = call(page, 'read_file');
  await expect(read.getByRole('region', { name: 'Result' })).toContainText('read');
  await end({ 'notes.md': text, 'plan.txt': 'Bake on Friday\n' });
  await expect(read.getByRole('textbox', { name: 'plan.txt' })).toContainText('Bake on Friday');
  await expect(read).toContainText('As the run left it');
  // Nothing of it can be written, for it is a copy.
  await expect(read.getByRole('textbox', { name: 'plan.txt' })).toHaveAttribute('aria-readonly', 'true');
  await executor.disconnect();
});

const STUDIO = zip({
  'toolset.yaml': `manifest_version: "1"
id: studio
name: Studio
version: "1.0.0"
tools:
  - id: chart
    entrypoint: "tools.t:chart"
    renderer: {type: html, artifact: artifacts/chart.html, data: {points: "$return.points", title: "$args.title"}}
`,
  'tools/t.py': 'def chart(title: str) -> dict:\n    """Draws."""\n    return {"points": []}\n',
  'artifacts/chart.html': `<!doctype html><title>chart</title><h1 id="title"></h1><p id="reach"></p>
<script>
  const { title, points } = window.__TOOL_DATA__;
  document.getElementById('title').textContent = title + ': ' + points.reduce((a, b) => a + b);
  try { document.getElementById('reach').textContent = 'It reads ' + parent.document.title; }
  catch { document.getElementById('reach').textContent = 'It reads nothing'; }
</script>`,
});

test('a page is drawn with its data on an origin of its own, and stays what it was when its toolset changes and goes', async ({
  kitbag,
  page,
}) => {
  await kitbag.install(STUDIO);
  const { run, did, say, end, executor } = await begin(kitbag, 'studio');
  await kitbag.open(page, `/runs/${run}`);
  // Who reads at the end stays there, also when what is shown there comes later than its event.
  await say(...Array.from({ length: 40 }, (_, at) => `Line ${at}`));
  await expect(page.getByText('Line 39')).toBeAttached();
  const main = page.getByRole('main');
  await main.evaluate((element) => element.scrollTo({ top: element.scrollHeight }));
  const below = () => main.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
  const drawn = async () => {
    const frame = call(page, 'chart').frameLocator('iframe');
    await expect(frame.getByRole('heading', { name: 'Sales: 42' })).toBeVisible();
    await expect(frame.getByText('It reads nothing')).toBeVisible();
  };
  await did('mcp__kitbag__chart', { title: 'Sales' }, blocks({ points: [1, 2, 39] }));
  await drawn();
  await expect.poll(below).toBeLessThan(48);
  const iframe = call(page, 'chart').locator('iframe');
  await expect(iframe).toHaveAttribute('sandbox', 'allow-scripts');
  const address = new URL((await iframe.getAttribute('src'))!);
  expect(address.hostname).toMatch(/^[a-z2-7]{32}\.localhost$/);
  expect(address.origin).not.toBe(kitbag.url);
  await expect(call(page, 'chart').getByRole('region', { name: 'artifacts/chart.html' })).toBeVisible();

  await kitbag.ask('PUT', '/toolsets/studio/overrides/chart', { renderer: 'key-value' });
  await page.reload();
  await drawn();
  await end();
  await expect(page.getByRole('region', { name: 'Answer' })).toBeVisible();
  await kitbag.ask('DELETE', '/toolsets/studio');
  await page.reload();
  await drawn();
  await call(page, 'chart').getByRole('button', { name: 'Load again' }).click();
  await drawn();
  await executor.disconnect();
});

test.describe('frames', () => {
  test.use({ flags: ['--frame-allow', 'http://pictures.example'] });

  test('an address that is allowed is shown; what cannot be shown as it was meant says why, and has its shape', async ({
    kitbag,
    page,
  }) => {
    await kitbag.install(appBuilder());
    const put = (tool: string, renderer: string, rendererConfig: object) =>
      kitbag.ask('PUT', `/toolsets/app-builder/overrides/${tool}`, { renderer, rendererConfig });
    await put('run_command', 'frame', { url: '$return.output' });
    await put('read_file', 'frame', { port: '$return.0.port' });
    await put('write_file', 'html', { content: '<h1>$return.title</h1>', data: '$args' });
    await page.route('http://pictures.example/**', (route) =>
      route.fulfill({ contentType: 'text/html', body: '<h1>A picture</h1>' }),
    );
    const { run, did, end, executor } = await begin(kitbag, 'app-builder');
    await kitbag.open(page, `/runs/${run}`);
    await did('mcp__kitbag__run_command', {}, blocks({ output: 'http://pictures.example/a' }));
    const framed = call(page, 'run_command');
    await expect(framed.frameLocator('iframe').getByRole('heading', { name: 'A picture' })).toBeVisible();
    await expect(framed.locator('iframe')).toHaveAttribute('src', 'http://pictures.example/a');

    await did('mcp__kitbag__read_file', { path: 'a.txt' }, blocks([{ port: 3000 }]));
    const far = call(page, 'read_file');
    await expect(far).toContainText('port 3000 is on the machine that the agent works on');
    await expect(far.getByRole('cell', { name: '3000' })).toBeVisible();
    await did('mcp__kitbag__write_file', { path: 'a.txt' }, blocks([{ line: 'a table' }]));
    const lost = call(page, 'write_file');
    await expect(lost).toContainText('$return.title leads to nothing');
    await expect(lost.getByRole('cell', { name: 'a table' })).toBeVisible();
    await did('mcp__kitbag__write_file', { path: 'b.txt', content: 'x' }, 'no room left', true);
    const failed = page.getByRole('article', { name: 'Call of write_file: Failed' });
    await expect(failed.getByRole('region', { name: 'Result' })).toContainText('no room left');
    await end();
    await expect(page.getByRole('region', { name: 'Answer' })).toBeVisible();
    await expect(page.locator('iframe')).toHaveCount(1);
    await executor.disconnect();
  });
});

test('built-in tools, those of servers and an agent’s own are shown as they are known', async ({ kitbag, page }) => {
  const command = process.execPath;
  const args = [`${ROOT}/web/tests/fixtures/many-tools.mjs`, '3'];
  await kitbag.ask('POST', '/toolsets', { name: 'Desk', mcpServers: [{ id: 'many', command, args }], agentSkills: [] });
  await kitbag.ask('POST', '/toolsets/desk/trust');
  const listed = async () => (await kitbag.ask('GET', '/toolsets/desk')).mcpServers[0].tools;
  await expect.poll(async () => (await listed()).length).toBeGreaterThan(0);
  const { name } = (await listed())[0];
  await kitbag.ask('PUT', `/toolsets/desk/overrides/many:${name}`, { renderer: 'key-value' });
  const { run, did, end, executor } = await begin(kitbag, 'desk');
  await kitbag.open(page, `/runs/${run}`);

  await did(`mcp__many__${name}`, {}, { content: [], structured_content: { city: 'London' } });
  await expect(call(page, name).getByRole('term').filter({ hasText: 'city' })).toBeVisible();
  await did('mcp__kitbag__run_command', { command: 'make' }, blocks({ stdout: 'built', exit_code: 2 }));
  await expect(call(page, 'run_command').getByText('Exit code 2')).toBeVisible();
  await expect(call(page, 'run_command').getByRole('region', { name: 'make' })).toContainText('built');
  await did('Bash', { command: 'ls -l' }, '\u001b[32mgreen\u001b[0m');
  await expect(
    call(page, 'Bash').getByRole('region', { name: 'ls -l' }).getByLabel('Output', { exact: true }),
  ).toHaveText('green');
  await did('Read', { file_path: '/tmp/x/notes.md' }, 'a line');
  await expect(call(page, 'Read').getByRole('textbox', { name: '/tmp/x/notes.md' })).toContainText('a line');
  // The agent's folder is none of the chat's.
  await expect(call(page, 'Read').getByRole('link', { name: 'Open in workspace' })).toHaveCount(0);
  await did('Edit', { file_path: 'a.txt', old_string: 'old words', new_string: 'new words' }, 'It was changed.');
  await expect(call(page, 'Edit').getByRole('group', { name: 'Differences in a.txt' })).toContainText('new words');
  await did('TodoWrite', { todos: [{ content: 'Bake', status: 'completed' }, { content: 'Sell' }] }, 'ok');
  await expect(call(page, 'TodoWrite').getByRole('region', { name: '1 of 2 done' })).toContainText('Sell');
  await end();
  await executor.disconnect();
});
