// What a render plan would be for a call, as the server makes it: expressions get their values, and those are checked. For a preview alone;
// the plan of a call is always the server's. It leaves the language "auto", for which the server puts that of the file.

export interface Scene {
  args: Record<string, unknown>;
  result: unknown;
}

export type Planned = { config: Record<string, unknown> } | { problem: string };

const ROOTS = ['args', 'return', 'chat_id', 'workspace', 'toolset'];
/** They are texts, for which something stands here. */
const STAND_INS: Record<string, string> = { chat_id: '‹chat›', workspace: '/workspace', toolset: '/toolset' };
/** Nothing is written into these that has no plain spelling. */
const PLAIN = ['file', 'path', 'artifact', 'url'];
const WORD = /^[\p{L}\p{N}_]+/u;

class Lost extends Error {}

export function plan(renderer: string, config: Record<string, unknown>, scene: Scene): Planned {
  try {
    const filled: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(config))
      if (value !== null && value !== undefined) filled[key] = fill(value, key, scene);
    return { config: settle(renderer, filled) };
  } catch (error) {
    if (error instanceof Lost) return { problem: error.message };
    throw error;
  }
}

function fill(value: unknown, key: string, scene: Scene): unknown {
  if (typeof value === 'string') return text(value, key, scene);
  if (Array.isArray(value)) return value.map((item) => fill(item, key, scene));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, fill(inner, key, scene)]));
  return value;
}

interface Expression {
  root: string;
  path: string[];
}

/** The expression at the beginning of a text, and what follows it. */
function at(text: string): [Expression, string] | undefined {
  if (text.startsWith('${')) {
    const end = text.indexOf('}');
    const inside = end < 0 ? undefined : whole(text.slice(2, end));
    return inside && [inside, text.slice(end + 1)];
  }
  const root = text.slice(1).match(WORD)?.[0];
  if (root === undefined || !ROOTS.includes(root)) return undefined;
  let rest = text.slice(1 + root.length);
  const path: string[] = [];
  while ((root === 'args' || root === 'return') && rest.startsWith('.')) {
    const key = rest.slice(1).match(WORD)?.[0];
    if (key === undefined) break;
    path.push(key);
    rest = rest.slice(1 + key.length);
  }
  return [{ root, path }, rest];
}

function whole(text: string): Expression | undefined {
  const [root = '', ...path] = text.split('.');
  const good = ROOTS.includes(root) && (path.length === 0 || root === 'args' || root === 'return');
  return good ? { root, path } : undefined;
}

function find({ root, path }: Expression, key: string, scene: Scene): unknown {
  if (root in STAND_INS) return STAND_INS[root];
  let value: unknown = root === 'args' ? scene.args : scene.result;
  for (const [index, name] of path.entries()) {
    if (!has(value, name)) {
      const here = ['$' + root, ...path.slice(0, index)].join('.');
      const instead =
        typeof value === 'object' && value !== null
          ? ` without “${name}”`
          : `; to end the expression there, write ${here.replace('$', '${')}}`;
      throw new Lost(`${key}: ${here}.${name} leads to nothing: ${here} is ${kind(value)}${instead}`);
    }
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

/** Keys of objects, places in lists. */
function has(value: unknown, name: string): boolean {
  if (Array.isArray(value)) return /^(0|[1-9]\d*)$/.test(name) && Number(name) < value.length;
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name);
}

function text(written: string, key: string, scene: Scene): unknown {
  const first = written.startsWith('$') ? at(written) : undefined;
  if (first?.[1] === '') return find(first[0], key, scene);
  const one = written.startsWith('$') && !written.slice(1).includes('$') ? whole(written.slice(1)) : undefined;
  if (one) {
    try {
      return find(one, key, scene);
    } catch {
      // It may still be the beginning of a longer text.
    }
  }
  let made = '';
  let rest = written;
  for (let dollar = rest.indexOf('$'); dollar >= 0; dollar = rest.indexOf('$')) {
    made += rest.slice(0, dollar);
    rest = rest.slice(dollar);
    const found = at(rest);
    if (!found) {
      made += '$';
      rest = rest.slice(rest.startsWith('$$') ? 2 : 1);
      continue;
    }
    const value = find(found[0], key, scene);
    if (PLAIN.includes(key) && (typeof value === 'object' || value === undefined))
      throw new Lost(`${key}: only a text, a number or a boolean can be a part of it, and this is ${kind(value)}`);
    made += typeof value === 'string' ? value : JSON.stringify(value);
    rest = found[1];
  }
  return made + rest;
}

function settle(renderer: string, config: Record<string, unknown>): Record<string, unknown> {
  for (const [key, place] of [
    ['file', 'workspace'],
    ['path', 'workspace'],
    ['artifact', 'toolset'],
  ] as const) {
    if (key in config) config[key] = inside(key, config[key], place);
  }
  if ('url' in config) {
    const url = typeof config.url === 'string' && URL.canParse(config.url) ? new URL(config.url) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password)
      throw new Lost(`url became ${JSON.stringify(config.url)}, which is no address of the web that can be shown`);
  }
  if ('port' in config) {
    const written = typeof config.port === 'string' && /^\d+$/.test(config.port) ? Number(config.port) : config.port;
    if (typeof written !== 'number' || !Number.isInteger(written) || written < 1 || written > 65535)
      throw new Lost(`port must be a number from 1 to 65535, and it became ${JSON.stringify(config.port)}`);
    config.port = written;
  }
  if ('language' in config && typeof config.language !== 'string')
    throw new Lost(`language must be a text, and it became ${kind(config.language)}`);
  const some = (...keys: string[]) => keys.some((key) => key in config);
  if (renderer === 'html' && !some('artifact', 'content')) throw new Lost('HTML needs a page or a content');
  if (renderer === 'frame' && !some('url', 'port')) throw new Lost('A frame needs an address or a port');
  if (renderer === 'editor' && !some('path')) throw new Lost('An editor needs a path');
  return config;
}

function inside(key: string, value: unknown, place: string): string {
  if (typeof value !== 'string') throw new Lost(`${key} must be a text, and it became ${kind(value)}`);
  const below = value === `/${place}` || value.startsWith(`/${place}/`) ? value.slice(place.length + 1) : value;
  const parts = below
    .split('/')
    .filter((part, index) => (part !== '' || (index === 0 && below === value)) && part !== '.');
  if (parts.length === 0 || parts[0] === '' || parts.includes('..'))
    throw new Lost(`${key} became ${JSON.stringify(value)}, which is not a path inside the ${place}`);
  return parts.join('/');
}

function kind(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  const names: Record<string, string> = {
    object: 'an object',
    string: 'a text',
    number: 'a number',
    boolean: 'a boolean',
  };
  return names[typeof value] ?? 'nothing';
}
