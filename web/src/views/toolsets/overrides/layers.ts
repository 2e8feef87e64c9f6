// Overrides: which there are for a tool, which of them counts, and what somebody changes about them.
import { api, ask, type Schemas } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { session } from '../../../data/session.svelte';
import { inOrder } from '../data.svelte';

export type Override = Schemas['ToolOverride'];
export type Body = Schemas['SetOverride'];
export type FieldName = 'name' | 'description' | 'renderer' | 'requiresConfirmation' | 'enabled';

/** Where the value of a field comes from. */
export interface Origin {
  from: 'default' | 'tool' | 'server' | 'bundle' | 'user';
  key?: string;
}

/** The key of the override that means one tool and no other. */
export function keyOf(toolId: string): string {
  const mcp = toolId.startsWith('mcp:');
  const text = mcp ? toolId.slice(4) : toolId;
  const colon = text.indexOf(':');
  // A built-in tool has a bare name.
  if (colon < 0) return `builtin:${text}`;
  const namespace = text.slice(0, colon).split('~').at(-1)!;
  // A server may be called "mcp"; then the prefix stays, or the name would be taken for it.
  return `${namespace === 'mcp' ? 'mcp:' : ''}${namespace}${text.slice(colon)}`;
}

export const isPattern = (key: string): boolean => key.includes('*');

/** Whether a key means the tool that has this key of its own. */
export function matches(key: string, own: string): boolean {
  const split = (text: string): [string, string] => {
    const rest = text.startsWith('mcp:') ? text.slice(4) : text;
    const colon = rest.indexOf(':');
    return [rest.slice(0, colon), rest.slice(colon + 1)];
  };
  const [namespace, tool] = split(key);
  const [ownNamespace, ownTool] = split(own);
  return fits(namespace, ownNamespace) && fits(tool, ownTool);
}

/**
 * Whether a pattern, in which `*` is any text, fits all of a text. Going back to the last star alone is enough; a regular expression would
 * go back to each, for as long as a hostile toolset wants.
 */
function fits(pattern: string, text: string): boolean {
  let [p, t] = [0, 0];
  let retry: { star: number; taken: number } | undefined;
  while (t < text.length) {
    if (pattern[p] === '*') retry = { star: ++p, taken: t };
    else if (pattern[p] === text[t]) [p, t] = [p + 1, t + 1];
    else if (retry) [p, t] = [retry.star, ++retry.taken];
    else return false;
  }
  return /^\**$/.test(pattern.slice(p));
}

/** An exact key before a pattern, a longer pattern before a shorter. */
function byPrecision(a: Override, b: Override): number {
  return Number(isPattern(a.key)) - Number(isPattern(b.key)) || b.key.length - a.key.length || (a.key < b.key ? -1 : 1);
}

export function valueOf(over: Override, field: FieldName): unknown {
  switch (field) {
    case 'name':
      return over.nameOverride;
    case 'description':
      return over.descriptionOverride;
    case 'renderer':
      return over.renderer;
    default:
      return over[field];
  }
}

/** The override that would count for a field of a tool if the person had said nothing about this tool alone. */
export function below(overrides: Override[], own: string, field: FieldName): Override | undefined {
  const said = overrides.filter((over) => matches(over.key, own) && (valueOf(over, field) ?? '') !== '');
  const user = said.filter((over) => over.origin === 'user' && over.key !== own).sort(byPrecision);
  const bundle = said.filter((over) => over.origin === 'bundle').sort(byPrecision);
  return user[0] ?? bundle[0];
}

/** What somebody said under a key. */
export function mine(overrides: Override[], key: string): Override | undefined {
  return overrides.find((over) => over.origin === 'user' && over.key === key);
}

/** What is said, without what is not. */
export function bodyOf(over: Override | undefined): Body {
  const said = {
    nameOverride: over?.nameOverride || undefined,
    descriptionOverride: over?.descriptionOverride || undefined,
    renderer: over?.renderer ?? undefined,
    rendererConfig: over?.renderer ? (over.rendererConfig ?? undefined) : undefined,
    requiresConfirmation: over?.requiresConfirmation ?? undefined,
    enabled: over?.enabled ?? undefined,
  };
  return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined)) as Body;
}

/** Says it, or takes all of it back if nothing is left. */
export function put(toolset: string, key: string, body: Body): Promise<void> {
  const params = { path: { org: session.org, id: toolset, key } };
  return inOrder(`${toolset} ${key}`, async () => {
    if (Object.keys(body).length > 0) {
      await ask(api.PUT('/v1/orgs/{org}/toolsets/{id}/overrides/{key}', { params, body }));
      return;
    }
    await ask(api.DELETE('/v1/orgs/{org}/toolsets/{id}/overrides/{key}', { params, keepalive: true })).catch(
      (error) => {
        // Where nothing was said, nothing needs to be taken back.
        if (Problem.of(error).code !== 'NOT_FOUND') throw error;
      },
    );
  });
}

/** Where a value comes from, in words. */
export function words(origin: Origin, own: string, provider?: string): string {
  switch (origin.from) {
    case 'user':
      return origin.key === own ? 'Your override' : `Your pattern ${origin.key}`;
    case 'bundle':
      return origin.key && isPattern(origin.key) ? `The toolset’s pattern ${origin.key}` : 'The toolset’s manifest';
    case 'server':
      return 'The settings of its server';
    case 'tool':
      if (provider === 'mcp') return 'What its server says';
      return provider === 'builtin' ? 'The tool itself' : 'The tool: its manifest or code';
    default:
      return 'Nobody said anything: the default';
  }
}
