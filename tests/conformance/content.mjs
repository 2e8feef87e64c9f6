// Prompts, resources and one skill: what both fixtures offer to be read.

import { createHash } from 'node:crypto';

import { ask } from './questions.mjs';

/** A red dot. */
export const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';

/** Silence. */
export const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

export const text = (words) => ({ type: 'text', text: words });
export const image = () => ({ type: 'image', data: PNG, mimeType: 'image/png' });

const says = (content) => ({ role: 'user', content });
const only = (words) => ({ messages: [says(text(words))] });

const PROMPTS = [
  {
    name: 'test_simple_prompt',
    description: 'A prompt without arguments',
    get: () => only('This is a simple prompt for testing.'),
  },
  {
    name: 'test_prompt_with_arguments',
    description: 'A prompt with two arguments',
    arguments: [
      { name: 'arg1', description: 'The first', required: true },
      { name: 'arg2', description: 'The second', required: true },
    ],
    get: ({ args }) => only(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`),
  },
  {
    name: 'test_prompt_with_embedded_resource',
    description: 'A prompt with a resource in it',
    arguments: [{ name: 'resourceUri', description: 'The URI of the resource', required: true }],
    get: ({ args }) => {
      const resource = { uri: args.resourceUri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' };
      return { messages: [says({ type: 'resource', resource }), says(text('Please process the embedded resource above.'))] };
    },
  },
  {
    name: 'test_prompt_with_image',
    description: 'A prompt with an image in it',
    get: () => ({ messages: [says(image()), says(text('Please analyze the image above.'))] }),
  },
  {
    name: 'test_input_required_result_prompt',
    description: 'A prompt that asks the user before it is made',
    get: async (context) => {
      const question = { user_context: ask.user('What context should the prompt use?', { context: { type: 'string' } }) };
      const { user_context: answer } = await context.ask(question);
      return only(`Use this context: ${answer.content?.context}`);
    },
  },
];

const TEXTS = new Map([
  ['test://static-text', 'This is the content of the static text resource.'],
  ['test://watched-resource', 'This resource may change.'],
]);

const FRONTMATTER = { name: 'count-words', description: 'Counts the words of a text. Use it when somebody asks how long a text is.' };
const HEAD = Object.entries(FRONTMATTER).map(([key, value]) => `${key}: ${value}\n`).join('');
const ROOT = 'skill://count-words';
const SKILL = `${ROOT}/SKILL.md`;
const FILES = new Map([
  [SKILL, `---\n${HEAD}---\n\nRead references/counting.md, then count.\n`],
  [`${ROOT}/references/counting.md`, 'A word is what stands between two spaces.\n'],
]);

/** The skill as it is listed: every file with its size and digest. */
const ENTRY = {
  uri: SKILL,
  frontmatter: FRONTMATTER,
  resources: [...FILES].map(([uri, words]) => ({
    uri,
    digest: `sha256:${createHash('sha256').update(words).digest('hex')}`,
    size: Buffer.byteLength(words),
  })),
};

const markdown = (uri) => ({ uri, name: uri.split('/').at(-1), mimeType: 'text/markdown' });
const DIRECTORIES = new Map([
  [ROOT, [markdown(SKILL), { uri: `${ROOT}/references`, name: 'references', mimeType: 'inode/directory' }]],
  [`${ROOT}/references`, [markdown(`${ROOT}/references/counting.md`)]],
]);

/** What is not there: the code and the data say it to the client. */
export class Unknown extends Error {
  constructor(what, data) {
    super(what);
    this.data = data;
  }
}

function known(value, what, data) {
  if (value === undefined) throw new Unknown(what, data);
  return value;
}

/** Whether the last prompt is in the list. A tool turns that on and off. */
let more = false;

export function togglePrompt() {
  more = !more;
}

export function listPrompts() {
  const extra = more ? [{ name: 'test_toggled_prompt', description: 'It comes and goes' }] : [];
  return { prompts: [...PROMPTS.map(({ get, ...shown }) => shown), ...extra] };
}

export function getPrompt(name, context) {
  if (more && name === 'test_toggled_prompt') return only('I am here.');
  return known(PROMPTS.find((prompt) => prompt.name === name), `There is no prompt ${name}`, { name }).get(context);
}

export function listResources() {
  const plain = [...TEXTS.keys()].map((uri) => ({ uri, name: uri.slice('test://'.length), description: 'Some text', mimeType: 'text/plain' }));
  const binary = { uri: 'test://static-binary', name: 'static-binary', description: 'A red dot', mimeType: 'image/png' };
  return { resources: [...plain, binary, { uri: SKILL, ...FRONTMATTER, mimeType: 'text/markdown' }] };
}

export function listTemplates() {
  const template = { uriTemplate: 'test://template/{id}/data', name: 'template', description: 'Data of an id', mimeType: 'application/json' };
  return { resourceTemplates: [template] };
}

export function readResource(uri) {
  if (uri === 'test://static-binary') return { contents: [{ uri, mimeType: 'image/png', blob: PNG }] };
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id !== undefined) {
    const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri, mimeType: 'application/json', text: data }] };
  }
  if (FILES.has(uri)) return { contents: [{ uri, mimeType: 'text/markdown', text: FILES.get(uri) }] };
  const words = known(TEXTS.get(uri), 'Resource not found', { uri });
  return { contents: [{ uri, mimeType: 'text/plain', text: words }] };
}

export function readDirectory(uri) {
  return { resources: known(DIRECTORIES.get(uri), 'This is no directory', { uri }) };
}

export const listSkills = () => ({ skills: [ENTRY] });

export function getSkill(uri) {
  return { skill: known(uri === SKILL ? ENTRY : undefined, 'There is no such skill', { uri }) };
}

export function complete({ argument }) {
  const values = ['paris', 'park', 'party', 'test', 'testing'].filter((word) => word.startsWith(argument.value));
  return { completion: { values, total: values.length, hasMore: false } };
}
