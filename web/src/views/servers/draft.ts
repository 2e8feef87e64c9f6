// What somebody writes of a server before it is one: taken apart from what they paste, put together for the API.
import type { Schemas } from '../../api/client';
import { session } from '../../data/session.svelte';
import type { Server } from './standing';

export interface Pair {
  name: string;
  value: string;
  /** It has a value already, which is kept while none is written. */
  kept: boolean;
}

export interface Draft {
  name: string;
  way: 'command' | 'url';
  command: string;
  /** One argument a line. */
  args: string;
  cwd: string;
  env: Pair[];
  url: string;
  serverType: 'streamable-http' | 'sse';
  headers: Pair[];
  description: string;
  sandbox: boolean;
  asks: boolean;
  pinPolicy: string;
  strictRecords: boolean;
}

export function blank(): Draft {
  return {
    name: '',
    way: 'command',
    command: '',
    args: '',
    cwd: '',
    env: [],
    url: '',
    serverType: 'streamable-http',
    headers: [],
    description: '',
    sandbox: false,
    asks: true,
    pinPolicy: 'accept',
    strictRecords: false,
  };
}

export function draftOf(server: Server): Draft {
  // What a value refers to is shown to who manages it; a value that is written out is never shown.
  const pairs = (names: readonly string[], references: Record<string, string | null> | null) =>
    names.map((name) => ({ name, value: references?.[name] ?? '', kept: !references?.[name] }));
  return {
    name: server.toolsetName,
    way: server.url === null ? 'command' : 'url',
    command: server.command ?? '',
    args: server.args.join('\n'),
    cwd: server.cwd ?? '',
    env: pairs(server.envNames, server.env),
    url: server.url ?? '',
    serverType: server.serverType === 'sse' ? 'sse' : 'streamable-http',
    headers: pairs(server.headerNames, server.headers),
    description: server.description ?? '',
    sandbox: server.sandbox,
    asks: server.requiresConfirmation,
    pinPolicy: server.pinPolicy,
    strictRecords: server.strictRecords,
  };
}

/** Whether values of variables and headers must be references: everywhere but where one person is on their own machine. */
export const referencesOnly = (): boolean => session.org !== 'local';

/** That rule, in words. */
export const REFERENCE_RULE =
  'Only a reference, exactly ${ENV:NAME} in capitals, digits and _: the secret itself is never stored.';

/** Whether a value is nothing but a reference to a variable, as it must be where secrets are not stored. */
export function isReference(value: string): boolean {
  return /^\$\{ENV:[A-Z0-9_]{1,128}\}$/.test(value);
}

/** Arguments, one a line. An argument of several lines cannot be written so; empty lines are none. */
export function lines(text: string): string[] {
  return text.split('\n').filter((line) => line.trim() !== '');
}

export function toAdd(draft: Draft): Schemas['AddServer'] {
  const texts = (pairs: Pair[]) =>
    Object.fromEntries(pairs.filter((pair) => pair.name.trim()).map((pair) => [pair.name.trim(), pair.value]));
  const way =
    draft.way === 'command'
      ? {
          serverType: 'stdio',
          command: draft.command.trim(),
          args: lines(draft.args),
          env: texts(draft.env),
          ...(draft.cwd.trim() ? { cwd: draft.cwd.trim() } : {}),
          sandbox: draft.sandbox,
        }
      : { serverType: draft.serverType, url: draft.url.trim(), headers: texts(draft.headers) };
  return {
    name: draft.name.trim() || suggestName(draft) || 'mcp-server',
    ...way,
    description: draft.description.trim() || null,
    requiresConfirmation: draft.asks,
    pinPolicy: draft.pinPolicy,
    strictRecords: draft.strictRecords,
  };
}

/** Only what is other than it was: what is not sent stays as it is. */
export function toUpdate(server: Server, draft: Draft): Schemas['UpdateServer'] {
  const was = draftOf(server);
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  const texts = (pairs: Pair[]) =>
    Object.fromEntries(
      pairs
        .filter((pair) => pair.name.trim())
        .map((pair) => [pair.name.trim(), pair.kept && !pair.value ? null : pair.value]),
    );
  const change: Schemas['UpdateServer'] = {};
  if (server.userMcp && draft.name.trim() !== was.name) change.name = draft.name.trim();
  if (draft.way === 'command') {
    if (draft.command.trim() !== was.command) change.command = draft.command.trim();
    if (!same(lines(draft.args), lines(was.args))) change.args = lines(draft.args);
    if (draft.cwd.trim() !== was.cwd) change.cwd = draft.cwd.trim() || null;
    if (!same(draft.env, was.env)) change.env = texts(draft.env);
    if (draft.sandbox !== was.sandbox) change.sandbox = draft.sandbox;
  } else {
    if (draft.url.trim() !== was.url) change.url = draft.url.trim();
    if (draft.serverType !== was.serverType) change.serverType = draft.serverType;
    if (!same(draft.headers, was.headers)) change.headers = texts(draft.headers);
  }
  if (draft.description.trim() !== was.description) change.description = draft.description.trim() || null;
  if (draft.asks !== was.asks) change.requiresConfirmation = draft.asks;
  if (draft.pinPolicy !== was.pinPolicy) change.pinPolicy = draft.pinPolicy;
  if (draft.strictRecords !== was.strictRecords) change.strictRecords = draft.strictRecords;
  return change;
}

/** The words of a line as a shell would read it; what it would replace stays as it is written. */
export function words(line: string): string[] {
  const found: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < line.length; at += 1) {
    const c = line.charAt(at);
    const next = line.charAt(at + 1);
    if (quote) {
      if (c === quote) quote = '';
      else if (c === '\\' && quote === '"' && /["\\$`]/.test(next)) ((word += next), (at += 1));
      else word += c;
    } else if (c === "'" || c === '"') {
      quote = c;
      word ??= '';
    } else if (c === '\\' && next === '\n') at += 1;
    else if (c === '\\' && next) ((word = (word ?? '') + next), (at += 1));
    else if (/\s/.test(c)) {
      if (word !== undefined) found.push(word);
      word = undefined;
    } else word = (word ?? '') + c;
  }
  if (word !== undefined) found.push(word);
  return found;
}

/** Takes a whole line apart: variables in front, the command, its arguments. */
export function takeLine(draft: Draft, line: string): void {
  const all = words(line.replace(/^\s*\$\s+/, ''));
  while (all.length > 1 && /^[A-Za-z_][A-Za-z0-9_]*=/.test(all[0] ?? '')) {
    const [name = '', ...value] = (all.shift() ?? '').split('=');
    const there = draft.env.find((pair) => pair.name === name);
    if (there) Object.assign(there, { value: value.join('='), kept: false });
    else draft.env.push({ name, value: value.join('='), kept: false });
  }
  draft.command = all.shift() ?? '';
  draft.args = [...all, ...lines(draft.args)].join('\n');
}

/** What a shell would have done with the words, and nobody does here. */
export function shellHint(draft: Draft): string | undefined {
  const all = [draft.command, ...lines(draft.args)];
  if (all.some((word) => word === '|' || word === '&&' || word === '>' || word === ';'))
    return 'No shell reads this line: |, && and > are given to the program as they are.';
  if (all.some((word) => word.startsWith('~')))
    return 'No shell reads this line: write your home folder out, or ${HOME} in an argument, in place of ~.';
  if (all.some((word) => /\$[A-Za-z_]/.test(word)))
    return 'No shell reads this line: a variable is written ${NAME}, with braces.';
  return undefined;
}

const RUNNERS = /^(npx|npm|uvx|uv|bunx|bun|pnpm|yarn|node|deno|python3?|docker|podman|pipx|dlx|exec|run|tool|x|go)$/;

/** A name by what it starts or where it is. */
export function suggestName(draft: Draft): string {
  if (draft.way === 'url') {
    try {
      const parts = new URL(draft.url).hostname
        .split('.')
        .filter((part) => !/^(mcp|api|www|com|org|net|io|dev|ai|app)$/.test(part));
      return parts.at(-1) ?? '';
    } catch {
      return '';
    }
  }
  const all = [draft.command, ...lines(draft.args)].map((word) => word.trim());
  const last = (word: string) =>
    word
      .replace(/\/+$/, '')
      .replace(/(.)@[^/]*$/, '$1')
      .replace(/:[\w.-]*$/, '')
      .split('/')
      .at(-1)!;
  const named = all.find((word) => word && !word.startsWith('-') && !RUNNERS.test(last(word))) ?? all[0] ?? '';
  return last(named)
    .replace(/\.\w+$/, '')
    .replace(/^(mcp-server-|server-|mcp-)/, '')
    .replace(/(-mcp-server|-mcp|-server)$/, '');
}
