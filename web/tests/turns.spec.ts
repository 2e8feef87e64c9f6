// A model in a chat: asked, followed, answered to, stopped, asked again. The model is a stand-in; everything else is real.
import AxeBuilder from '@axe-core/playwright';
import { type Locator, type Page } from '@playwright/test';
import { demo } from './demo.ts';
import { expect, Kitbag, test as base } from './kit.ts';
import { Gate, Model } from './model.ts';
import { BrokenWire } from './wire.ts';

const CLAUDE = 'anthropic/claude-stand-in';
const OTHER = 'openai/stand-in';

const test = base.extend<{ model: Model }>({
  // eslint-disable-next-line no-empty-pattern
  model: async ({}, use) => {
    const model = await Model.start();
    await use(model);
    await model.stop();
    expect(model.unused, 'answers that nobody asked for').toBe(0);
  },
  kitbag: async ({ model, flags }, use) => {
    const kitbag = await Kitbag.start([...model.flags, ...flags]);
    await use(kitbag);
    await kitbag.stop();
  },
});

const field = (within: Page | Locator, name: string) => within.getByRole('textbox', { name, exact: true });
const card = (page: Page, name: string) => page.getByRole('article', { name: new RegExp(`^Call of ${name}`) });
const said = (page: Page) => page.getByRole('article', { name: 'Message of You' });
const answer = (page: Page) => page.getByRole('article', { name: 'Message of Assistant' });
const branches = (within: Locator) => within.getByRole('group', { name: 'Branches' }).first();
const files = async (kitbag: Kitbag, chat: string) =>
  (await kitbag.ask<{ items: { path: string }[] }>('GET', `${chat}/workspace/files`)).items.map(({ path }) => path);

/** A new chat, opened. */
async function open(kitbag: Kitbag, page: Page): Promise<string> {
  const { id } = await kitbag.ask('POST', '/chats', { title: 'A test' });
  await kitbag.open(page, `/chats/${id}`);
  await expect(page.getByRole('heading', { level: 1, name: 'A test' })).toBeVisible();
  return `/chats/${id}`;
}

async function choose(page: Page, model: string): Promise<void> {
  await page.getByRole('combobox', { name: 'Model' }).fill(model);
  await page.getByRole('option', { name: model }).first().click();
  await expect(page.getByRole('combobox', { name: 'Model' })).toHaveValue(model);
}

async function ask(page: Page, text: string): Promise<void> {
  await field(page, 'Message').fill(text);
  // While a model answers nothing is sent, and its last words come a moment before its end.
  await expect(page.getByRole('button', { name: 'Add the message' })).toBeEnabled();
  await page.keyboard.press('Enter');
}

/** What keeps somebody out, each with where it is. */
async function findings(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).exclude('iframe').analyze();
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id} at ${target}: ${failureSummary}`));
}

test('a whole conversation: thinking, two calls in one step, one approved with other arguments, one denied', async ({
  kitbag,
  model,
  page,
}) => {
  await kitbag.install(demo());
  const { items } = await kitbag.ask('GET', '/available-tools');
  const name = items.find((tool: any) => tool.id === 'demo:append').modelName as string;
  const chat = await open(kitbag, page);
  await choose(page, CLAUDE);
  const gate = new Gate();
  model.answers(
    [
      { thinking: ['They want ', 'two lines.'] },
      { hold: gate },
      { text: ['I will add ', '**both** lines.'] },
      { call: name, args: { path: 'list.txt', line: 'first' } },
      { call: name, args: { path: 'list.txt', line: 'second' } },
    ],
    [{ text: 'One line is there; the other you did not want.' }],
  );
  await ask(page, 'Add two lines to list.txt.');
  await gate.reached;
  await expect(said(page)).toContainText('Add two lines to list.txt.');
  // While it thinks that is open; when it speaks it is folded.
  await expect(answer(page).getByText('They want two lines.')).toBeVisible();
  gate.release();
  await expect(answer(page).locator('strong', { hasText: 'both' })).toBeVisible();
  await expect(answer(page).getByText('They want two lines.')).toBeHidden();

  const waiting = card(page, 'Append: Waits for a yes');
  await expect(waiting).toHaveCount(2);
  const status = answer(page).getByRole('status').first();
  await expect(status).toHaveText('Waits for a yes or no.');
  // However much comes at once, the end of it is in view.
  await expect(status).toBeInViewport();
  expect(await findings(page)).toEqual([]);
  await field(waiting.first(), 'line').fill('first, as approved');
  await waiting.first().getByRole('button', { name: 'Approve with these arguments' }).click();
  await expect(card(page, 'Append: Done')).toContainText('first, as approved');
  await waiting.getByRole('button', { name: 'Deny' }).click();
  await expect(card(page, 'Append: Denied')).toBeVisible();
  const all = answer(page).first();
  await expect(all).toContainText('One line is there; the other you did not want.');
  await expect(all).toContainText('20 tokens read, 10 written · 2 steps');
  expect(await kitbag.ask('GET', `${chat}/workspace/files/list.txt`)).toBe('first, as approved\n');

  // The model heard what became of each call.
  const results = model.questions[1]!.body.messages.at(-1).content;
  expect(results.map((result: any) => result.is_error ?? false)).toEqual([false, true]);
  expect(JSON.stringify(results[1])).toContain('DENIED');

  await page.reload();
  await expect(all).toContainText('One line is there; the other you did not want.');
  await expect(all).toContainText(CLAUDE);
  await expect(card(page, 'Append: Done')).toContainText('first, as approved');
  await expect(card(page, 'Append: Denied')).toBeVisible();
  await all.getByText('Thought about it').click();
  await expect(all.getByText('They want two lines.')).toBeVisible();
});

test('a page that is loaded anew in the middle, or loses its connection, goes on with the turn', async ({
  kitbag,
  model,
  page,
}) => {
  const wire = await BrokenWire.to(kitbag.url);
  const { id } = await kitbag.ask('POST', '/chats', { title: 'A test' });
  await page.goto(`${wire.url}/?token=${kitbag.token}`);
  await page.goto(`${wire.url}/chats/${id}`);
  await choose(page, OTHER);
  const [first, second] = [new Gate(), new Gate()];
  model.answers([
    { text: 'One,' },
    { hold: first },
    { text: [' two,', ' three,'] },
    { hold: second },
    { text: ' four.' },
  ]);
  await ask(page, 'Count to four.');
  await first.reached;
  await expect(answer(page)).toContainText('One,');

  await page.reload();
  await expect(answer(page).getByText('One,', { exact: true })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Stop', exact: true })).toBeVisible();
  first.release();
  await expect(answer(page).getByText('One, two, three,', { exact: true })).toBeVisible();

  const again = page.waitForRequest(/\/turns\/[^/]+\/events/);
  wire.cut();
  expect(Number((await again).headers()['last-event-id'])).toBeGreaterThan(1);
  second.release();
  await expect(answer(page).getByText('One, two, three, four.', { exact: true })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Stop', exact: true })).toHaveCount(0);
  expect(model.questions.length, 'it was asked once').toBe(1);
  await wire.stop();
});

test('a turn is stopped, and says so; the next one goes on from there', async ({ kitbag, model, page }) => {
  const chat = await open(kitbag, page);
  await choose(page, CLAUDE);
  const gate = new Gate();
  model.answers(
    [{ thinking: 'A long story, then.' }, { text: 'Once upon a time' }, { hold: gate }],
    [{ text: 'Very well.' }],
  );
  await ask(page, 'Tell me a story.');
  await gate.reached;
  await expect(answer(page)).toContainText('Once upon a time');
  // Nobody goes elsewhere, or says more, while it is at work.
  await expect(page.getByRole('button', { name: 'Ask the model' })).toHaveCount(0);
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await expect(answer(page)).toContainText('It was stopped.');
  await expect.poll(() => model.hungUp).toBe(1);
  await expect(page.getByRole('button', { name: 'Stop', exact: true })).toHaveCount(0);
  const { items } = await kitbag.ask('GET', `${chat}/messages`);
  expect(items.at(-1).content[0].state).toBe('cancelled');

  await ask(page, 'Leave it.');
  await expect(answer(page).last()).toContainText('Very well.');
  gate.release();
});

test('a call that waits is ended with its turn', async ({ kitbag, model, page }) => {
  await kitbag.install(demo());
  await open(kitbag, page);
  await choose(page, OTHER);
  const { items } = await kitbag.ask('GET', '/available-tools');
  const name = items.find((tool: any) => tool.id === 'demo:append').modelName as string;
  model.answers([{ call: name, args: { path: 'list.txt', line: 'never' } }]);
  await ask(page, 'Add a line.');
  await expect(card(page, 'Append: Waits for a yes')).toBeVisible();
  await answer(page).first().getByRole('button', { name: 'Stop the model' }).click();
  await expect(card(page, 'Append: Cancelled')).toBeVisible();
  await expect(answer(page).first()).toContainText('It was stopped.');
});

test('what goes wrong is told, and the message is answered again as a branch', async ({ kitbag, model, page }) => {
  await open(kitbag, page);
  await choose(page, CLAUDE);
  model.answers([{ text: 'The answer is' }, { cut: true }], { status: 401, message: 'this key is not known' }, [
    { text: 'The answer is 42.' },
  ]);
  await ask(page, 'What is the answer?');
  await expect(answer(page).getByRole('alert')).toContainText('The model could not go on.');
  await expect(answer(page).getByRole('alert')).toContainText('LLM_UNAVAILABLE');
  expect(await findings(page)).toEqual([]);
  await answer(page).getByRole('button', { name: 'Answer again' }).last().click();
  await expect(answer(page).getByRole('alert')).toContainText('this key is not known');
  await expect(branches(answer(page))).toContainText('2 / 2');
  await answer(page).getByRole('alert').getByRole('button', { name: 'Answer again' }).click();
  await expect(answer(page)).toContainText('The answer is 42.');
  await expect(branches(answer(page))).toContainText('3 / 3');
  await answer(page).getByRole('button', { name: 'The branch before' }).click();
  await expect(answer(page).getByRole('alert')).toContainText('this key is not known');
});

test('an answer is given again in a branch that begins with the files as they were', async ({
  kitbag,
  model,
  page,
}) => {
  const chat = await open(kitbag, page);
  await choose(page, OTHER);
  const write = (path: string) => ({ call: 'write_file', args: { path, content: path } });
  model.answers([write('before.txt')], [{ text: 'Ready.' }]);
  await ask(page, 'Get ready.');
  await expect(answer(page).first()).toContainText('Ready.');
  model.answers([write('one.txt')], [{ text: 'The first way.' }]);
  await ask(page, 'Write something.');
  const last = page.locator('[data-message]').last().getByRole('article', { name: 'Message of Assistant' });
  await expect(last).toContainText('The first way.');
  expect(await files(kitbag, chat)).toEqual(['before.txt', 'one.txt']);

  model.answers([write('two.txt')], [{ text: 'The second way.' }]);
  await last.hover();
  await last.getByRole('button', { name: 'Answer again' }).click();
  await expect(last).toContainText('The second way.');
  await expect(branches(last)).toContainText('2 / 2');
  expect(await files(kitbag, chat)).toEqual(['before.txt', 'two.txt']);
  await branches(last).getByRole('button', { name: 'The branch before' }).click();
  await expect(last).toContainText('The first way.');
  await expect.poll(() => files(kitbag, chat)).toEqual(['before.txt', 'one.txt']);

  // A message of a person, changed and asked again, is a branch too.
  model.answers([{ text: 'The third way.' }]);
  const question = said(page).last();
  await question.hover();
  await question.getByRole('button', { name: 'Edit as a branch' }).click();
  await field(page, 'The message, changed').fill('Write nothing.');
  await page.getByRole('button', { name: 'Ask again' }).click();
  await expect(last).toContainText('The third way.');
  await expect(branches(question)).toContainText('2 / 2');
  await expect.poll(() => files(kitbag, chat)).toEqual(['before.txt']);
  expect(JSON.stringify(model.questions.at(-1)!.body.messages)).not.toContain('The first way.');
});

test('a model is chosen, remembered, or typed; without one a message is only added', async ({
  kitbag,
  model,
  page,
}) => {
  await open(kitbag, page);
  const picker = page.getByRole('combobox', { name: 'Model' });
  await ask(page, 'Nobody answers this.');
  await expect(said(page)).toHaveCount(1);
  await picker.click();
  await expect(page.getByRole('listbox', { name: 'Models' }).getByRole('option')).toHaveText([
    CLAUDE,
    OTHER,
    'openai/stand-in-small',
    /No model.*only added/,
  ]);
  await picker.fill('small');
  await page.keyboard.press('Enter');
  await expect(picker).toHaveValue('openai/stand-in-small');
  await page.getByLabel('Thinking').selectOption('Thinking: high');
  await page.reload();
  await expect(picker).toHaveValue('openai/stand-in-small');
  model.answers([{ text: 'A small answer.' }], [{ text: 'An answer of another.' }]);
  await ask(page, 'And this?');
  await expect(answer(page)).toContainText('A small answer.');
  expect(model.questions[0]!.body).toMatchObject({ model: 'stand-in-small', reasoning_effort: 'high' });

  await choose(page, 'anthropic/not-in-the-list');
  await ask(page, 'And you?');
  await expect(answer(page).last()).toContainText('An answer of another.');
  expect(model.questions[1]!.body.model).toBe('not-in-the-list');

  await field(page, 'Message').fill('Only this, please.');
  await page.getByRole('button', { name: 'Add the message' }).click();
  await expect(said(page).last()).toContainText('Only this, please.');
  expect(model.questions.length).toBe(2);
});

base('what is known of models is said alike in a chat and in the builder', async ({ kitbag, page }) => {
  const silent = { provider: 'openai', available: true, models: [], error: { code: 'X', message: 'It is asleep.' } };
  const listing = { provider: 'anthropic', available: true, models: ['anthropic/one'], error: null };
  let answer: object | undefined = { default: null, providers: [listing, silent] };
  await page.route('**/models', (route) =>
    answer ? route.fulfill({ json: answer }) : route.fulfill({ status: 500, json: {} }),
  );
  await open(kitbag, page);
  const words = page.getByText('OpenAI does not list its models: It is asleep.');
  await expect(words).toBeVisible();
  await page.goto(`${kitbag.url}/toolsets/new/builder`);
  await expect(words).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Model', exact: true })).toHaveValue('anthropic/one');
  // What was listed stays while it cannot be asked for anew.
  answer = undefined;
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Toolsets' }).click();
  await page.getByRole('link', { name: 'Build with a model' }).click();
  await expect(page.getByText('The models cannot be listed')).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Model', exact: true })).toHaveValue('anthropic/one');
  answer = { default: null, providers: [{ ...listing, models: ['anthropic/two'] }] };
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByText('The models cannot be listed')).toHaveCount(0);
  await expect(page.getByRole('combobox', { name: 'Model', exact: true })).toContainText('two');
});

base('where nobody can be asked, it is said how to get a model', async ({ kitbag, page }) => {
  await open(kitbag, page);
  const form = page.getByRole('region', { name: 'What comes next' });
  await expect(form).toContainText('No model can be asked yet');
  await expect(form).toContainText('OPENAI_API_KEY');
  await choose(page, 'anthropic/claude-without-a-key');
  await ask(page, 'Anybody there?');
  await expect(page.getByText(/has no key for anthropic/)).toBeVisible();
  // What was written is there to be tried again.
  await expect(field(page, 'Message')).toHaveValue('Anybody there?');
  await form.getByRole('link', { name: 'Add a model key' }).click();
  await expect(page.getByRole('tab', { name: 'Model keys' })).toHaveAttribute('aria-selected', 'true');
});

test.describe('many tools', () => {
  test.use({ flags: ['--max-tool-schema-bytes', '500'] });

  test('the model looks for the tools that it needs; what it gets wrong is shown too', async ({
    kitbag,
    model,
    page,
  }) => {
    await open(kitbag, page);
    await choose(page, CLAUDE);
    model.answers(
      [
        { call: 'search_tools', args: { query: 'write a file' } },
        { call: 'no_such_tool', args: { a: 1 } },
      ],
      [{ call: 'write_file', args: { path: 'a.txt', content: 'a' } }],
      [{ text: 'Found and done.' }],
    );
    await ask(page, 'Write a file.');
    const all = answer(page).first();
    await expect(all).toContainText('Found and done.');
    await expect(all).toContainText('Not a call that can be made');
    await expect(all).toContainText('there is no tool "no_such_tool"');
    await expect(all).toContainText(/tools behind a search: about [\d,]+ tokens saved in each step/);
    await all.getByText('Looked for tools:').click();
    await expect(all.getByRole('listitem').filter({ hasText: 'write_file' })).toBeVisible();
    await expect(card(page, 'Write File: Done')).toBeVisible();
  });
});

test('a turn that somebody else asks for is followed, to its limit', async ({ kitbag, model, page }) => {
  const chat = await open(kitbag, page);
  const gate = new Gate();
  model.answers([
    { text: 'From elsewhere' },
    { hold: gate },
    { call: 'write_file', args: { path: 'a.txt', content: 'a' } },
  ]);
  const over = kitbag.ask('POST', `${chat}/stream`, { content: 'Hello', model: OTHER, limits: { maxSteps: 1 } });
  await gate.reached;
  await expect(answer(page)).toContainText('From elsewhere');
  gate.release();
  await over;
  await expect(answer(page).first()).toContainText('It was stopped at a limit.');
  await expect(answer(page).first()).toContainText('limit of steps');
  await expect(card(page, 'Write File: Done')).toBeVisible();
});

test('what is kept of other turns is shown, whatever is in it', async ({ kitbag, page }) => {
  const chat = await open(kitbag, page);
  const usage = { inputTokens: 1234, outputTokens: 5, cacheReadTokens: 1000, cacheWriteTokens: 0 };
  const head = { type: 'turn', turnId: 'x', model: OTHER, maker: 'openai', steps: 1, usage, tools: {} };
  const say = (content: unknown) => kitbag.ask('POST', `${chat}/messages`, { role: 'assistant', content });
  await say([
    { ...head, state: 'interrupted' },
    { type: 'thinking', text: '' },
  ]);
  await expect(answer(page).last()).toContainText('It was interrupted.');
  await expect(answer(page).last()).toContainText('does not show what');
  await expect(answer(page).last()).toContainText('2,234 tokens read (1,000 from the cache), 5 written');
  await say([
    { ...head, state: 'done', stop: 'length' },
    { type: 'text', text: 'Cut' },
  ]);
  await expect(answer(page).last()).toContainText('The answer is cut off.');
  await say([{ ...head, state: 'done', stop: 'refused' }]);
  await expect(answer(page).last()).toContainText('It will not answer.');
  // What is no turn, or no block that is known, is shown as it is.
  await say([{ ...head, state: 'done', usage: null }]);
  await expect(answer(page).last()).toContainText('"usage": null');
  await say([{ ...head, state: 'done' }, { type: 'tool_search' }, { type: 'tool_call' }, { type: 'odd', a: 1 }]);
  await expect(answer(page).last()).toContainText('"type": "odd"');
});
