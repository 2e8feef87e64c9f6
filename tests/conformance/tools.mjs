// The tools of both fixtures. A tool gets a context: its arguments, the client's capabilities, and ways to tell and to ask.

import { setTimeout as sleep } from 'node:timers/promises';

import { Unknown, image, text, togglePrompt, WAV } from './content.mjs';
import { NEEDS, ask } from './questions.mjs';

const NOTHING = { type: 'object', properties: {} };
const object = (properties, required = []) => ({ type: 'object', properties, required });
const STRING = { type: 'string' };

const says = (words) => ({ content: [text(words)] });

/** A failure of the protocol, not of the tool. */
export class Broken extends Error {}

function tool(name, description, run, more = {}) {
  return { name, description, inputSchema: NOTHING, run, ...more };
}

/** A tool that asks one thing and says what the answer was. */
function asking(name, description, questions, words) {
  return tool(name, description, async (context) => says(words(await context.ask(questions))));
}

const CONTENT = [
  tool('test_simple_text', 'Says one sentence', () => says('This is a simple text response for testing.')),
  tool('test_image_content', 'Gives an image', () => ({ content: [image()] })),
  tool('test_audio_content', 'Gives a sound', () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] })),
  tool('test_embedded_resource', 'Gives a resource', () => {
    const resource = { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'This is an embedded resource content.' };
    return { content: [{ type: 'resource', resource }] };
  }),
  tool('test_multiple_content_types', 'Gives a text, an image and a resource', () => {
    const data = JSON.stringify({ test: 'data', value: 123 });
    const resource = { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: data };
    return { content: [text('Multiple content types test:'), image(), { type: 'resource', resource }] };
  }),
  tool('test_error_handling', 'Always fails', () => {
    throw new Error('This tool intentionally returns an error for testing');
  }),
  tool('json_schema_2020_12_tool', 'Has a schema with many keywords', ({ args }) => says(JSON.stringify(args)), {
    inputSchema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: { address: { $anchor: 'addressDef', ...object({ street: STRING, city: STRING }) } },
      properties: {
        name: STRING,
        address: { $ref: '#/$defs/address' },
        contactMethod: { type: 'string', enum: ['phone', 'email'] },
        phone: STRING,
        email: STRING,
      },
      allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
      if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
      then: { required: ['phone'] },
      else: { required: ['email'] },
      additionalProperties: false,
    },
  }),
  tool('test_header_parameters', 'Has parameters that travel in headers too', ({ args }) => says(JSON.stringify(args)), {
    inputSchema: object({
      region: { ...STRING, 'x-mcp-header': 'Region' },
      count: { type: 'integer', 'x-mcp-header': 'Count' },
      dry: { type: 'boolean', 'x-mcp-header': 'Dry' },
      query: STRING,
    }),
  }),
];

async function log(context) {
  await context.log('info', 'Tool execution started');
  await sleep(50);
  await context.log('info', 'Tool processing data');
  await sleep(50);
  await context.log('info', 'Tool execution completed');
  return says('The log was written.');
}

const TELLING = [
  tool('test_tool_with_logging', 'Writes three lines to the log', log),
  tool('test_logging_tool', 'Writes to the log if somebody reads it', log),
  tool('test_tool_with_progress', 'Tells how far it is', async (context) => {
    for (const done of [0, 50, 100]) {
      await context.progress(done, 100);
      await sleep(50);
    }
    return says('It went from nothing to all.');
  }),
  tool('test_reconnection', 'Hangs up before it answers', async (context) => {
    context.hangUp();
    await sleep(100);
    return says('The answer came later.');
  }),
];

const NAME = { name: STRING };
const CHOICES = ['option1', 'option2', 'option3'];
const titled = (word) => ['value1', 'value2', 'value3'].map((value, index) => ({ const: value, title: `${word} ${index + 1}` }));

const completed = ({ answer }) => `Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`;

const ASKING = [
  tool('test_sampling', 'Asks the model of the client', async (context) => {
    const { answer } = await context.ask({ answer: ask.model(context.args.prompt) });
    return says(`LLM response: ${answer.content.text}`);
  }, { inputSchema: object({ prompt: STRING }, ['prompt']) }),
  tool('test_elicitation', 'Asks the user', async (context) => {
    const fields = { username: { ...STRING, description: "User's response" }, email: { ...STRING, description: "User's email address" } };
    const { answer } = await context.ask({ answer: ask.user(context.args.message, fields) });
    return says(`User response: action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`);
  }, { inputSchema: object({ message: STRING }, ['message']) }),
  asking('test_elicitation_sep1034_defaults', 'Asks the user, with defaults', {
    answer: ask.user('Please check these values', {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    }, []),
  }, completed),
  asking('test_elicitation_sep1330_enums', 'Asks the user to choose', {
    answer: ask.user('Please choose', {
      untitledSingle: { type: 'string', enum: CHOICES },
      titledSingle: { type: 'string', oneOf: titled('Option') },
      legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
      untitledMulti: { type: 'array', items: { type: 'string', enum: CHOICES } },
      titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
    }, []),
  }, completed),
  asking('test_missing_capability', 'Cannot do without the model of the client', { answer: ask.model('Are you there?') }, () => 'It is there.'),
  tool('test_streaming_elicitation', 'Tells something, then asks the user', async (context) => {
    await context.progress(1, 2);
    const { confirm } = await context.ask({ confirm: ask.user('Shall it go on?', { ok: { type: 'boolean' } }) });
    return says(`The user said ${confirm.action}.`);
  }),
  asking('test_input_required_result_elicitation', 'Asks for a name', { user_name: ask.user('What is your name?', NAME) },
    ({ user_name: answer }) => `Hello, ${answer.content?.name}!`),
  asking('test_input_required_result_sampling', 'Asks for a capital', { capital_question: ask.model('What is the capital of France?') },
    ({ capital_question: answer }) => answer.content.text),
  asking('test_input_required_result_list_roots', 'Asks for the roots', { client_roots: ask.roots() },
    ({ client_roots: answer }) => `Roots: ${answer.roots.map((root) => root.uri).join(', ')}`),
  asking('test_input_required_result_request_state', 'Asks and keeps a state', { confirm: ask.user('Please confirm', { ok: { type: 'boolean' } }) },
    () => 'state-ok'),
  asking('test_input_required_result_tampered_state', 'Asks and keeps a state that nobody may change',
    { confirm: ask.user('Please confirm', { ok: { type: 'boolean' } }) }, () => 'state-ok'),
  asking('test_input_required_result_multiple_inputs', 'Asks three things at once', {
    user_name: ask.user('What is your name?', NAME),
    greeting: ask.model('Generate a greeting', 50),
    client_roots: ask.roots(),
  }, ({ user_name: name, greeting, client_roots: roots }) => `${greeting.content.text} ${name.content?.name}, ${roots.roots.length} roots`),
  tool('test_input_required_result_multi_round', 'Asks twice', async (context) => {
    const { step1 } = await context.ask({ step1: ask.user('Step 1: What is your name?', NAME) });
    const { step2 } = await context.ask({ step2: ask.user('Step 2: What is your favorite color?', { color: STRING }) });
    return says(`${step1.content?.name} likes ${step2.content?.color}.`);
  }),
  tool('test_input_required_result_capabilities', 'Asks all that the client can answer', async (context) => {
    const all = { name: ask.user('What is your name?', NAME), greeting: ask.model('Generate a greeting', 50), places: ask.roots() };
    const able = Object.entries(all).filter(([, question]) => NEEDS[question.method] in context.capabilities);
    const answers = await context.ask(Object.fromEntries(able));
    return says(`Asked: ${Object.keys(answers).join(', ')}`);
  }),
];

/** Longer than a client of a gateway waits before it gets a task. */
const LATE = 1000;

const CONFIRM = { confirm: { type: 'boolean' } };

/** Tools that may run as tasks; `task` says whether they must. `before` runs before the task is there. */
const LONG = [
  tool('greet', 'Greets somebody', ({ args }) => says(`Hello, ${args.name ?? 'World'}!`), { inputSchema: object(NAME) }),
  tool('slow_compute', 'Computes for some seconds', async ({ args, signal }) => {
    await sleep(1000 * (args.seconds ?? 0), undefined, { signal });
    return says(`Computed ${args.label ?? 'it'} in ${args.seconds ?? 0} s.`);
  }, { task: 'may', inputSchema: object({ seconds: { type: 'number' }, label: STRING }) }),
  tool('failing_job', 'Fails after a while', async ({ signal }) => {
    await sleep(500, undefined, { signal });
    throw new Error('The job failed');
  }, { task: 'must' }),
  tool('protocol_error_job', 'Breaks after a while', async ({ signal }) => {
    // Later than a gateway waits before it makes a task of a call: what is over sooner is answered at once.
    await sleep(LATE, undefined, { signal });
    throw new Broken('The server broke');
  }, { task: 'may' }),
  tool('confirm_delete', 'Asks before it deletes', async (context) => {
    const { confirm } = await context.ask({ confirm: ask.user(`Delete ${context.args.filename}?`, CONFIRM) });
    return says(confirm.content?.confirm ? `${context.args.filename} is gone.` : 'Nothing was done.');
  }, { task: 'may', inputSchema: object({ filename: STRING }) }),
  tool('multi_input', 'Asks two things at once', async (context) => {
    const { one, two } = await context.ask({ one: ask.user('One?', CONFIRM), two: ask.user('Two?', CONFIRM) });
    return says(`${one.action} and ${two.action}`);
  }, { task: 'may' }),
  tool('test_tool_with_task', 'Asks for a name, then works', async ({ first, signal }) => {
    await sleep(100, undefined, { signal });
    return says(`Worked for ${first.user_name.content?.name}.`);
  }, { task: 'must', before: (context) => context.ask({ user_name: ask.user('What is your name?', NAME) }) }),
];

/** Tools that say late that there is more to come. */
const LATELY = [
  tool('late_question', 'Asks after a while', async (context) => {
    await sleep(LATE, undefined, { signal: context.signal });
    const { name } = await context.ask({ name: ask.user('What is your name?', NAME) });
    return says(`Late, ${name.content?.name}.`);
  }),
  tool('late_task', 'Becomes a task after a while', async () => says('Late, but done.'), {
    task: 'may', before: ({ signal }) => sleep(LATE, undefined, { signal }),
  }),
];

/** What the last tool says of itself. It does not come and go: who lists tools twice in a row must find the same ones. */
let times = 0;
const toggled = () => tool('test_toggled', `Changed ${times} times`, () => says('I am here.'));

const CHANGING = [
  tool('test_trigger_tool_change', 'Changes the list of tools', (context) => {
    times += 1;
    context.changed('tools');
    return says('The list of tools changed.');
  }),
  tool('test_trigger_prompt_change', 'Changes the list of prompts', (context) => {
    togglePrompt();
    context.changed('prompts');
    return says('The list of prompts changed.');
  }),
  tool('test_trigger_resource_update', 'Says that the watched resource changed', (context) => {
    context.updated('test://watched-resource');
    return says('The resource changed.');
  }),
];

const all = () => [...CONTENT, ...TELLING, ...ASKING, ...LONG, ...LATELY, ...CHANGING, toggled()];

export function listTools() {
  return { tools: all().map(({ name, description, inputSchema }) => ({ name, description, inputSchema })) };
}

export function findTool(name) {
  const found = all().find((one) => one.name === name);
  if (found === undefined) throw new Unknown(`There is no tool ${name}`, { name });
  return found;
}

/** Runs a tool to its end. `Asked`, `Unknown` and `Broken` are for the caller; other failures are the tool's result. */
export async function run(one, context, passes) {
  try {
    return await one.run(context);
  } catch (error) {
    if (error instanceof Unknown || error instanceof Broken || passes(error)) throw error;
    return { isError: true, content: [text(error.message)] };
  }
}
