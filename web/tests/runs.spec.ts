// Runs and executors: paired, asked for, followed, ended. In place of an agent there is a test that says what happens.
import type { Page } from '@playwright/test';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { Executor } from './executor.ts';
import { expect, type Kitbag, PROGRAM, test } from './kit.ts';
import { another, Person } from './people.ts';

const task = { prompt: 'Write a greeting.', engine: { id: 'gateway.claude.v2' } };
const answered = (output: unknown) => ({ state: 'succeeded', output, usage: { inputTokens: 1200, outputTokens: 34 } });

async function ask(kitbag: Kitbag, config: object = task, more: object = {}): Promise<string> {
  return (await kitbag.ask('POST', '/agent-runs', { config, ...more })).id;
}

const feed = (page: Page) => page.getByRole('log', { name: 'What happens in the run' });
const states = (page: Page) => page.getByRole('list', { name: 'States' });

test('a machine is paired by what the dialog shows, which closes when it has come', async ({ kitbag, page }) => {
  await kitbag.open(page, '/executors');
  await expect(page.getByRole('heading', { name: 'No executor yet' })).toBeVisible();
  await page.getByRole('button', { name: 'Pair an executor' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Labels').fill(`gpu, ${'x'.repeat(65)}`);
  await dialog.getByRole('button', { name: 'Make a token' }).click();
  await expect(dialog.getByLabel('Labels')).toHaveAttribute('aria-invalid', 'true');
  await dialog.getByLabel('Labels').fill('gpu, group:west');
  await dialog.getByRole('button', { name: 'Make a token' }).click();
  const command = (await dialog.getByLabel('The command to pair', { exact: true }).textContent())!;
  const [, token, server] = /^kitbag executor pair (\S+) --server (\S+)$/.exec(command)!;
  expect(server).toBe(kitbag.url);
  await expect(dialog.getByLabel('The command to start', { exact: true })).toHaveText('kitbag executor start');
  await expect(dialog.getByRole('timer')).toHaveText(/^1[45]:\d\d$/);

  const executor = await Executor.pair(kitbag, token!);
  await expect(dialog).toHaveCount(0);
  const row = page.getByRole('list', { name: 'Executors' }).getByRole('listitem');
  await expect(row).toContainText('workshop');
  await expect(row).toContainText('Not connected');
  await expect(row).toContainText('group:west');
  await executor.connect();
  await expect(row).toContainText('Claude Code 2.1.30');
  await expect(row).toContainText('0 of 2 runs');

  await row.getByRole('button', { name: 'Change workshop' }).click();
  await page.getByLabel('Name').fill('bench');
  await page.getByLabel('Labels').fill('eu');
  await page.getByRole('button', { name: 'Save' }).click();
  await expect(row).toContainText('bench');
  await expect(row).not.toContainText('gpu');
  await row.getByRole('button', { name: 'Take bench out' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Take out' }).click();
  await expect(page.getByRole('heading', { name: 'No executor yet' })).toBeVisible();
  await executor.next('revoked');
  await executor.disconnect();
});

test('what the dialog shows to type makes this machine an executor, until it is taken out', async ({
  kitbag,
  page,
}) => {
  await kitbag.open(page, '/executors?pair=1');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Make a token' }).click();
  await expect(dialog.locator('pre')).toHaveCount(2);
  const shown = await dialog.locator('pre').allTextContents();
  const env = { PATH: process.env.PATH, HOME: kitbag.data, KITBAG_DATA: join(kitbag.data, 'executor') };
  const type = (command: string) => spawn(PROGRAM, command.split(' ').slice(1), { env, stdio: 'ignore' });
  const ends = (child: ChildProcess) => new Promise<number | null>((done) => child.on('exit', done));
  expect(shown.map((command) => command.split(' ')[0])).toEqual(['kitbag', 'kitbag']);
  expect(await ends(type(shown[0]!))).toBe(0);
  await expect(dialog).toHaveCount(0);
  const started = type(shown[1]!);
  const over = ends(started);
  const row = page.getByRole('list', { name: 'Executors' }).getByRole('listitem');
  await expect(row.getByText('Connected', { exact: true })).toBeVisible();
  await row.getByRole('button', { name: /^Take .* out$/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Take out' }).click();
  await expect(page.getByRole('heading', { name: 'No executor yet' })).toBeVisible();
  await over;
});

test('a run waits and says why, begins, is followed live, answers, and what it left is brought into its chat', async ({
  kitbag,
  page,
}) => {
  const chat = await kitbag.ask('POST', '/chats', { title: 'A letter' });
  await kitbag.ask('PUT', `/chats/${chat.id}/workspace/files/letter.md`, Buffer.from('Dear reader\n'));
  await kitbag.open(page, `/chats/${chat.id}`);
  await page.getByRole('button', { name: 'Let an agent work' }).click();
  const dialog = page.getByRole('dialog', { name: 'New run' });
  await expect(dialog.getByLabel('Files it begins with')).toHaveValue(chat.id);
  await expect(dialog.getByLabel('Engine')).toHaveValue('gateway.claude.v2');
  await expect(dialog.getByText('No executor that is connected has it')).toBeVisible();
  await dialog.getByLabel('What the agent is to do').fill('Greet the reader by name.');
  await dialog.getByRole('button', { name: 'Start the run' }).click();

  await expect(page.getByRole('heading', { level: 1, name: 'Greet the reader by name.' })).toBeVisible();
  await expect(page.getByText('There is no executor of this organisation yet; pair one.')).toBeVisible();
  const executor = await Executor.start(kitbag);
  const { id, files } = await executor.take();
  expect(Object.keys(files)).toEqual(['letter.md']);
  await expect(states(page)).toContainText('Given to workshop');
  await expect(page.getByText('It waits:')).toHaveCount(0);

  await executor.tell(
    id,
    { kind: 'log', level: 'info', message: 'the folder is ready' },
    { kind: 'thinking', text: 'A name is wanted.' },
    { kind: 'text', text: 'I look at the **letter** first.' },
    { kind: 'tool_call', callId: 'c1', tool: 'mcp__notes__find', input: { word: 'name' } },
  );
  const call = page.getByRole('article', { name: /^Call of find/ });
  await expect(call).toContainText('Running');
  await expect(feed(page).locator('strong', { hasText: 'letter' })).toBeVisible();
  await expect(page.getByText('A name is wanted.')).toBeHidden();
  await page.getByText('Thinking', { exact: true }).click();
  await expect(page.getByText('A name is wanted.')).toBeVisible();
  const blocks = [{ type: 'text', text: '[{"name": "Ada", "city": "London"}]' }];
  await executor.tell(
    id,
    { kind: 'tool_result', callId: 'c1', output: blocks, isError: false },
    { kind: 'usage', inputTokens: 900, outputTokens: 12 },
  );
  await expect(call).toContainText('Done');
  await expect(call.getByRole('cell', { name: 'London' })).toBeVisible();
  await expect(page.getByText('900 tokens in, 12 tokens out')).toBeVisible();

  await executor.tell(id, { kind: 'final', output: 'It greets *Ada* now.' });
  const left = { 'letter.md': 'Dear Ada\n', 'envelope.txt': 'To Ada\n' };
  await executor.end(id, answered('It greets *Ada* now.'), left);
  await expect(page.getByRole('region', { name: 'Answer' }).locator('em')).toHaveText('Ada');
  await expect(states(page)).toContainText('Done');
  await expect(page.getByText('1,200 tokens in, 34 tokens out')).toBeVisible();
  await page.getByText('Log, 1 line').click();
  await expect(page.getByText('the folder is ready')).toBeVisible();

  await page.getByRole('tab', { name: 'Changed files 2' }).click();
  await page.getByRole('link', { name: /letter\.md/ }).click();
  await expect(page.getByRole('group', { name: 'Differences in letter.md' })).toContainText('Dear Ada');
  const content = () => kitbag.ask('GET', `/chats/${chat.id}/workspace/files/letter.md`);
  expect(await content()).toBe('Dear reader\n');
  await page.getByRole('button', { name: 'Bring into the chat' }).click();
  await expect(page.getByText('the chat’s files stand at what it left')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Bring into the chat' })).toHaveCount(0);
  expect(await content()).toBe('Dear Ada\n');
  // It can be loaded again, and is the same.
  await page.reload();
  await expect(page.getByRole('group', { name: 'Differences in letter.md' })).toContainText('Dear Ada');
  await executor.disconnect();
});

test('nothing is missed and nothing comes twice when the connection breaks', async ({ kitbag, page }) => {
  const executor = await Executor.start(kitbag);
  const run = await ask(kitbag);
  const { id } = await executor.take();
  const asked: string[] = [];
  // Each connection is cut behind its first answer; what was told meanwhile must come with the next.
  await page.route(/\/agent-runs\/[^/]+\/events/, async (route) => {
    asked.push(new URL(route.request().url()).searchParams.get('after')!);
    if (asked.length > 3) return route.fallback();
    const answer = await route.fetch({ url: `${route.request().url()}&follow=false` });
    // Without its last line it has not ended but broken.
    const body = (await answer.text()).replace(/event: ?end\n.*\n\n/, '');
    return route.fulfill({ response: answer, body });
  });
  await executor.tell(id, { kind: 'text', text: 'one' }, { kind: 'text', text: 'two' });
  await kitbag.open(page, `/runs/${run}`);
  await expect(feed(page).getByRole('article')).toHaveText(['one', 'two']);
  await executor.tell(id, { kind: 'text', text: 'three' });
  await expect(feed(page).getByRole('article')).toHaveText(['one', 'two', 'three']);
  await executor.tell(id, { kind: 'text', text: 'four' });
  await expect.poll(() => asked.length).toBeGreaterThan(3);
  await executor.tell(id, { kind: 'text', text: 'five' });
  await expect(feed(page).getByRole('article')).toHaveText(['one', 'two', 'three', 'four', 'five']);
  // Each time it was gone on behind what had come.
  expect(asked[0]).toBe('0');
  expect(Number(asked[1])).toBeGreaterThan(0);
  await executor.disconnect();
});

test('what was begun, given back and begun anew is told apart', async ({ kitbag, page }) => {
  const executor = await Executor.start(kitbag);
  const run = await ask(kitbag);
  await kitbag.open(page, `/runs/${run}`);
  const { id } = await executor.take();
  await executor.tell(id, { kind: 'text', text: 'one' });
  await expect(feed(page)).toContainText('one');
  executor.refuse(id, 'the machine goes to sleep');
  const again = await executor.take();
  expect(again.id).toEqual({ runId: run, attempt: 2 });
  await executor.tell(again.id, { kind: 'text', text: 'two' });
  await expect(feed(page)).toContainText(/one.*Attempt 2.*the machine goes to sleep.*two/is);
  await expect(states(page)).toContainText('Waits again');
  await expect(states(page)).toContainText('Given to workshop');
  await expect(page.getByText('Attempt 2 of 3')).toBeVisible();
  await executor.end(again.id, answered('Done.'));
  await expect(page.getByRole('region', { name: 'Answer' })).toContainText('Done.');
  await executor.disconnect();
});

test('a run is cancelled, done again, and both are compared', async ({ kitbag, page }) => {
  const executor = await Executor.start(kitbag);
  const first = await ask(kitbag, task, { name: 'Greeting' });
  await kitbag.open(page, '/runs');
  const row = page.getByRole('list', { name: 'Runs' }).getByRole('listitem').first();
  const { id } = await executor.take();
  await expect(row).toContainText('Running');
  await row.getByRole('link', { name: 'Greeting' }).click();
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await executor.next('cancel');
  await expect(page.getByText('Being cancelled')).toBeVisible();
  await executor.end(id, { state: 'cancelled', error: { code: 'CANCELLED', message: 'somebody ended it' } });
  await expect(states(page)).toContainText('Cancelled');
  await expect(page.getByText('somebody ended it').first()).toBeVisible();

  await page.getByRole('button', { name: 'Do it again', exact: true }).click();
  await expect(page.getByRole('link', { name: 'does another one again' })).toBeVisible();
  const again = await executor.take();
  expect(again.id.runId).not.toBe(first);
  await executor.end(again.id, answered('Hello.'), { 'hello.txt': 'Hello\n' });
  await expect(page.getByRole('region', { name: 'Answer' })).toContainText('Hello.');
  await page.getByRole('tab', { name: 'Compare' }).click();
  await page.getByLabel('Compare with').selectOption(first);
  await expect(page.getByRole('table', { name: 'Both runs' })).toContainText('Cancelled');
  await expect(page.getByRole('region', { name: 'This run’s answer' })).toContainText('Hello.');
  const files = page.getByRole('table', { name: 'Changed files of both' });
  await expect(files.getByRole('row', { name: /hello\.txt/ })).toContainText('added');
  await files.getByRole('link', { name: 'hello.txt' }).click();
  await expect(page.getByRole('group', { name: 'Differences in hello.txt' })).toBeVisible();

  // By its state, and what has none.
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Runs' }).click();
  await page.getByLabel('Only those in this state').selectOption('cancelled');
  await expect(page.getByRole('list', { name: 'Runs' }).getByRole('listitem')).toHaveCount(1);
  await page.getByLabel('Only those in this state').selectOption('timed_out');
  await expect(page.getByRole('heading', { name: 'No such run' })).toBeVisible();
  await executor.disconnect();
});

test('what is wrong with what is asked for is said at its field', async ({ kitbag, page }) => {
  await Executor.start(kitbag, 'west', ['gpu']).then((executor) => executor.disconnect());
  await kitbag.open(page, '/runs');
  const dialog = page.getByRole('dialog', { name: 'New run' });
  const opener = page.getByRole('button', { name: 'New run' }).first();
  await opener.click();
  await expect(dialog.getByLabel('What the agent is to do')).toBeFocused();
  await page.keyboard.type('Count to ten.');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(dialog).toHaveCount(0);
  await expect(opener).toBeFocused();
  // What was written is there again.
  await opener.click();
  await expect(dialog.getByLabel('What the agent is to do')).toHaveValue('Count to ten.');
  await dialog.getByLabel('What the agent is to do').fill('');
  const start = () => dialog.getByRole('button', { name: 'Start the run' }).click();
  const told = async (label: string, words: RegExp) => {
    await start();
    const field = dialog.getByLabel(label).and(dialog.locator('[aria-invalid]'));
    await expect(field).toBeFocused();
    await expect(field).toHaveAccessibleDescription(words);
  };
  await told('What the agent is to do', /must not be empty/);
  await dialog.getByLabel('What the agent is to do').fill('Count to ten.');
  await dialog.getByText('More: name').click();
  await dialog.getByLabel('Turns').fill('65');
  await dialog.getByText('More: name').click();
  await told('Turns', /must be from 1 to 64, not 65/);
  await dialog.getByLabel('Turns').fill('');
  await dialog.getByLabel('Seconds').fill('601');
  await told('Seconds', /must be from 1000 to 600000/);
  await dialog.getByLabel('Seconds').fill('90');
  await dialog.getByLabel('Tools beside the toolset’s').fill('Read\n--all');
  await told('Tools beside the toolset’s', /no hyphen in front/);
  await dialog.getByLabel('Tools beside the toolset’s').fill('Read\nBash(git add, git commit)');
  await dialog.getByLabel('Answer', { exact: true }).selectOption('json');
  await dialog.getByLabel('JSON Schema of the answer').fill('{');
  await told('JSON Schema of the answer', /is no JSON/);
  await dialog.getByLabel('JSON Schema of the answer').fill('{"type": "object"}');
  await dialog.getByLabel('Where').selectOption('labels');
  await dialog.getByLabel('Labels').fill('y'.repeat(65));
  await told('Labels', /64/);
  await dialog.getByLabel('Labels').fill('gpu');
  await start();
  await expect(page.getByText('It waits:')).toBeVisible();
  const [run] = (await kitbag.ask('GET', '/agent-runs')).items;
  expect(run.config).toMatchObject({
    limits: { timeoutMs: 90_000, maxTurns: 8 },
    tools: { allow: ['Read', 'Bash(git add, git commit)'] },
    output: { mode: 'json', jsonSchema: { type: 'object' } },
    execution: { selector: { labels: ['gpu'] } },
  });
  // What was asked for can be changed and asked for again.
  await page.getByRole('button', { name: 'Change and do it again' }).click();
  await expect(dialog.getByLabel('Labels')).toHaveValue('gpu');
  await expect(dialog.getByLabel('Seconds')).toHaveValue('90');
  await expect(dialog.getByLabel('Files it begins with')).toHaveValue('');
});

test('nothing that an agent says or a tool gives can run', async ({ kitbag, page }) => {
  const executor = await Executor.start(kitbag);
  const evil = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>[x](javascript:window.hit=1)';
  const run = await ask(kitbag, { ...task, prompt: evil }, { name: '<b onclick=alert(1)>evil</b>' });
  await kitbag.open(page, `/runs/${run}`);
  const { id } = await executor.take();
  await executor.tell(
    id,
    { kind: 'text', text: evil },
    { kind: 'thinking', text: evil },
    { kind: 'tool_call', callId: evil, tool: evil, input: { [evil]: evil } },
    {
      kind: 'tool_result',
      callId: evil,
      output: [
        { type: 'text', text: evil },
        { type: 'image', mimeType: 'text/html', data: 'PHNjcmlwdD4=' },
      ],
      isError: true,
    },
    { kind: 'tool_call', callId: 'two', tool: 'x', input: evil },
    {
      kind: 'tool_result',
      callId: 'two',
      output: { content: [{ type: 'resource_link', uri: 'javascript:window.hit=1', name: evil }] },
      isError: false,
    },
    { kind: 'log', level: evil, message: evil },
    { kind: 'error', error: { code: evil, message: evil } },
  );
  await executor.end(id, answered(evil), { 'page.html': evil });
  await expect(page.getByRole('region', { name: 'Answer' })).toContainText('window.hit=1');
  await page.getByText('Log, 1 line').click();
  await page.getByText('Thinking', { exact: true }).click();
  for (const tab of ['Changed files 1', 'What was asked for', 'What happened'])
    await page.getByRole('tab', { name: tab }).click();
  expect(await page.evaluate(() => (window as unknown as { hit?: number }).hit)).toBeUndefined();
  expect(await page.locator('main script, main [onerror], main [onclick], main a[href^="javascript"]').count()).toBe(0);
  await executor.disconnect();
});

test('a member sees runs and executors, asks for runs, and manages none of the machines', async ({
  kitbag,
  page,
  context,
  browser,
}) => {
  const ada = await Person.owner(kitbag, 'Acme', 'ada@acme.example', 'Ada');
  const cem = await ada.brings('acme', 'cem@acme.example', 'member', 'Cem');
  const { pairingToken } = await ada.ask('POST', '/v1/orgs/acme/executors/pairing-tokens', {});
  const executor = await Executor.pair(kitbag, pairingToken);
  await executor.connect();
  await cem.enter(context);
  await page.goto(`${kitbag.url}/o/acme/executors?pair=1`);
  await expect(page.getByRole('list', { name: 'Executors' })).toContainText('workshop');
  await expect(page.getByRole('button', { name: /Pair|Change|Take/ })).toHaveCount(0);
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page.getByRole('link', { name: 'Runs' }).first().click();
  await page.getByRole('button', { name: 'New run' }).first().click();
  await page.getByLabel('What the agent is to do').fill('Say hello.');
  await page.getByRole('button', { name: 'Start the run' }).click();
  const { id } = await executor.take();
  await expect(page.getByText('asked for by cem@acme.example')).toBeVisible();
  await executor.end(id, answered('Hello from here.'));
  await expect(page.getByRole('region', { name: 'Answer' })).toContainText('Hello from here.');

  // Who came with a token that may only use looks, and begins nothing.
  const { secret } = await ada.ask('POST', '/v1/orgs/acme/tokens', { name: 'agent', scopes: ['use'] });
  const other = await another(browser);
  await other.goto(`${kitbag.url}/?token=${secret}`);
  await other.getByRole('link', { name: 'Runs' }).first().click();
  await expect(other.getByRole('list', { name: 'Runs' })).toContainText('Say hello.');
  await expect(other.getByRole('button', { name: 'New run' })).toHaveCount(0);
  await other.getByRole('link', { name: 'Say hello.' }).click();
  await expect(other.getByRole('region', { name: 'Answer' })).toContainText('Hello from here.');
  await expect(other.getByRole('button', { name: /again/ })).toHaveCount(0);
  await other.context().close();
  await executor.disconnect();
});
