// What tools gave an agent, shown by the renderers that their results have everywhere. In place of an agent a test says what happened.
import type { Page } from '@playwright/test';
import { join } from 'node:path';
import { Executor } from './executor.ts';
import { expect, type Kitbag, ROOT, test } from './kit.ts';
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
  const end = (files?: Record<string, string>) =>
    executor.end(id, { state: 'succeeded', output: 'Done.', usage }, files);
  return { run, did, end, executor };
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

test('what needs the server, leads to nothing or failed is shown by its shape', async ({ kitbag, page }) => {
  await kitbag.install(appBuilder());
  const put = (tool: string, renderer: string, rendererConfig: object) =>
    kitbag.ask('PUT', `/toolsets/app-builder/overrides/${tool}`, { renderer, rendererConfig });
  await put('run_command', 'html', { content: '<h1 id="page">$return.output</h1>' });
  await put('read_file', 'code', { content: '$return.nothing' });
  const { run, did, end, executor } = await begin(kitbag, 'app-builder');
  await kitbag.open(page, `/runs/${run}`);
  await did('mcp__kitbag__run_command', {}, blocks([{ output: 'as a table' }]));
  await expect(call(page, 'run_command').getByRole('cell', { name: 'as a table' })).toBeVisible();
  await did('mcp__kitbag__read_file', { path: 'a.txt' }, blocks([{ line: 'also a table' }]));
  await expect(call(page, 'read_file').getByRole('cell', { name: 'also a table' })).toBeVisible();
  await did('mcp__kitbag__write_file', { path: '../out', content: 'x' }, [{ type: 'text', text: 'a plain text' }]);
  await expect(call(page, 'write_file')).toContainText('a plain text');
  await did('mcp__kitbag__write_file', { path: 'b.txt', content: 'x' }, 'no room left', true);
  const failed = page.getByRole('article', { name: 'Call of write_file: Failed' });
  await expect(failed.getByRole('region', { name: 'Result' })).toContainText('no room left');
  await end();
  await expect(page.getByRole('region', { name: 'Answer' })).toBeVisible();
  await expect(call(page, 'run_command').getByRole('cell', { name: 'as a table' })).toBeVisible();
  await expect(page.locator('iframe')).toHaveCount(0);
  await executor.disconnect();
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
