// Servers out of a text that somebody copied from another program's configuration. It is read here and nowhere else: what it holds in
// clear goes no further than the fields, and where secrets are never stored, not even there.
import { Problem } from '../../../api/problem';
import { isReference, lines, type Pair } from '../../servers/draft';
import { free, idOf, newServer, type ServerDraft } from './draft';

export interface Pasted {
  servers: ServerDraft[];
  /** What whoever pasted it should know. */
  notes: string[];
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** `strict` where values must be references: what is written out is left behind. */
export function pasted(text: string, taken: readonly string[], strict: boolean): Pasted {
  const found = serversIn(parse(text));
  if (!found.length) throw new Problem('NO_SERVER', 'There is no MCP server in it: no command and no url.');
  const notes: string[] = [];
  const names = [...taken];
  const servers = found.map(([name, raw]) => {
    const id = free(idOf(name) || 'server', names);
    names.push(id);
    return serverOf(id, raw, strict, notes);
  });
  return { servers, notes };
}

function parse(text: string): unknown {
  const string = '"(?:\\\\.|[^"\\\\])*"';
  const kept = (_: string, word?: string) => word ?? '';
  // Comments, and a comma behind the last thing, are what people's configurations have and JSON has not.
  const plain = text
    .replaceAll(new RegExp(`(${string})|//[^\\n]*|/\\*[^]*?\\*/`, 'g'), kept)
    .replaceAll(new RegExp(`(${string})|,(?=\\s*[}\\]])`, 'g'), kept)
    .trim();
  try {
    // A part of a file begins with a name.
    return JSON.parse(/^"/.test(plain) ? `{${plain.replace(/,$/, '')}}` : plain) as unknown;
  } catch (error) {
    throw new Problem('NO_JSON', `This is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

const isServer = (value: unknown): boolean =>
  isObject(value) &&
  (typeof value.command === 'string' || typeof value.url === 'string' || Array.isArray(value.command));

function serversIn(value: unknown): [name: string, server: Json][] {
  if (!isObject(value)) return [];
  if (isServer(value)) return [[text(value.name) || text(value.id) || 'server', value]];
  for (const key of ['mcpServers', 'mcp_servers', 'servers', 'mcp', 'context_servers']) {
    const inner = value[key];
    if (Array.isArray(inner))
      return inner
        .filter(isObject)
        .filter(isServer)
        .map((one) => [text(one.id) || text(one.name), one]);
    if (isObject(inner)) return serversIn(inner);
  }
  return Object.entries(value).filter((entry): entry is [string, Json] => isServer(entry[1]));
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** A server as others write it, under this id. */
export function serverOf(id: string, raw: Json, strict: boolean, notes: string[]): ServerDraft {
  const server = newServer();
  server.name = id;
  server.description = text(raw.description);
  server.enabled = raw.disabled !== true && raw.enabled !== false;
  const pairs = (value: unknown): Pair[] =>
    Object.entries(isObject(value) ? value : {}).map(([name, one]) => ({
      name,
      value: valueOf(id, name, typeof one === 'string' ? one : JSON.stringify(one), strict, notes),
      kept: false,
    }));
  if (typeof raw.url === 'string') {
    server.way = 'url';
    server.url = raw.url;
    server.serverType = text(raw.type ?? raw.transport ?? raw.serverType) === 'sse' ? 'sse' : 'streamable-http';
    server.headers = pairs(raw.headers);
    return server;
  }
  const command = Array.isArray(raw.command) ? raw.command.map(String) : [text(raw.command)];
  const args = [...command.slice(1), ...(Array.isArray(raw.args) ? raw.args.map(String) : [])];
  server.command = command[0] ?? '';
  server.args = lines(args.join('\n')).join('\n');
  server.cwd = text(raw.cwd);
  server.env = pairs(raw.env ?? raw.environment);
  return server;
}

/** References are written in one way; what is written out stays where it may. */
function valueOf(server: string, name: string, value: string, strict: boolean, notes: string[]): string {
  const variable = /^\$\{(?:env:|ENV:|input:)?([A-Za-z0-9_-]+)\}$/.exec(value)?.[1];
  if (variable) return `\${ENV:${variable.toUpperCase().replaceAll('-', '_')}}`;
  if (!strict) return value;
  const stands = `\${ENV:${name.toUpperCase().replaceAll(/[^A-Z0-9]+/g, '_')}}`;
  if (!isReference(value)) notes.push(`${server}: the value of ${name} was left out; ${stands} stands in its place.`);
  return stands;
}
