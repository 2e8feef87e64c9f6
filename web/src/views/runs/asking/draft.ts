// What somebody fills in to have an agent work, and what is sent of it.
import type { Schemas } from '../../../api/client';
import type { Problem } from '../../../api/problem';
import { labelsOf } from '../../executors/executors';
import { configOf, type Run } from '../words';

export const SDK = 'claude.agent-sdk.v1';

/** Each limit: its name, its label, what it is if nothing is said, and what is allowed. Times are shown in seconds. */
export const LIMITS = [
  { key: 'maxTurns', label: 'Turns', usual: 8, hint: '1 to 64' },
  { key: 'maxToolCalls', label: 'Calls of tools', usual: 20, hint: '0 to 200' },
  { key: 'timeoutMs', label: 'Seconds', usual: 60, hint: '1 to 600' },
  { key: 'maxOutputChars', label: 'Characters of the answer', usual: 50_000, hint: '256 to 1,000,000' },
  { key: 'maxRuntimeChars', label: 'Characters of all that is told', usual: 200_000, hint: '1,024 to 2,000,000' },
  { key: 'maxAttempts', label: 'Attempts, if executors are lost', usual: 3, hint: '1 to 10' },
] as const;
export type Limit = (typeof LIMITS)[number]['key'];

export interface Draft {
  name: string;
  prompt: string;
  system: string;
  engine: string;
  model: string;
  /** The id of one; `default`, or `none`. No id has a colon in front. */
  toolset: string;
  pool: string;
  where: 'any' | 'executor' | 'labels' | 'group';
  executor: string;
  labels: string;
  group: string;
  allow: string;
  limits: Partial<Record<Limit, number | null>>;
  output: 'text' | 'json';
  schema: string;
  /** The chat whose files it begins with; empty: none. */
  chat: string;
  apply: boolean;
}

export const DEFAULT = ':default';
export const NONE = ':none';

export function blank(): Draft {
  return {
    name: '',
    prompt: '',
    system: '',
    engine: '',
    model: '',
    toolset: DEFAULT,
    pool: 'byon',
    where: 'any',
    executor: '',
    labels: '',
    group: '',
    allow: '',
    limits: {},
    output: 'text',
    schema: '',
    chat: '',
    apply: false,
  };
}

/** What was written and not sent, for as long as the page is open. */
export const unsent: { draft: Draft | undefined } = { draft: undefined };

/** The same as was asked for once, to be changed. */
export function draftLike(run: Run, isOwnChat: boolean): Draft {
  const { prompt, toolsetId, engine, execution, tools, limits, output, maxAttempts } = configOf(run);
  const { pool, labels, tag, group, executorId } = execution.selector;
  const none = engine.id === SDK ? execution.mode !== 'node' : tools.execution === 'cloud';
  const all = [...labels, ...(tag ? [tag] : [])];
  return {
    ...blank(),
    name: run.name ?? '',
    prompt: [prompt.instructions, prompt.inputTemplate].filter(Boolean).join('\n\n'),
    system: prompt.system ?? '',
    engine: engine.id,
    model: engine.model ?? '',
    toolset: none ? NONE : (toolsetId ?? DEFAULT),
    pool,
    where: executorId ? 'executor' : all.length ? 'labels' : group ? 'group' : 'any',
    executor: executorId ?? '',
    labels: all.join(', '),
    group: group ?? '',
    allow: tools.allow.join('\n'),
    limits: Object.fromEntries(
      LIMITS.map(({ key, usual }) => {
        const told = key === 'maxAttempts' ? maxAttempts : limits[key];
        const value = key === 'timeoutMs' && told !== undefined ? told / 1000 : told;
        return [key, value === usual ? undefined : value];
      }),
    ),
    output: output.mode === 'json' ? 'json' : 'text',
    schema: output.jsonSchema ? JSON.stringify(output.jsonSchema, null, 2) : '',
    chat: isOwnChat ? '' : run.chatId,
    apply: !isOwnChat && run.apply,
  };
}

/** What is wrong, by the place it is at. An empty place is none in particular. */
export type Told = Record<string, string>;

/** What is sent; or what cannot be, and why. */
export function toAsk(draft: Draft): { body: Schemas['CreateRun'] } | { told: Told } {
  let jsonSchema: unknown;
  if (draft.output === 'json' && draft.schema.trim()) {
    try {
      jsonSchema = JSON.parse(draft.schema);
    } catch (error) {
      return { told: { 'output.jsonSchema': `is no JSON: ${error instanceof Error ? error.message : ''}` } };
    }
  }
  const { maxAttempts, timeoutMs, ...counts } = draft.limits;
  const isSdk = draft.engine === SDK;
  const none = draft.toolset === NONE;
  const config = {
    prompt: draft.system.trim() ? { system: draft.system, instructions: draft.prompt } : draft.prompt,
    ...(draft.toolset !== DEFAULT && !none ? { toolsetId: draft.toolset } : {}),
    engine: { id: draft.engine, ...(draft.model.trim() ? { model: draft.model.trim() } : {}) },
    // Where a toolset does not apply is decided by mode and place, as docs/runs.md says.
    execution: { mode: isSdk && !none ? 'node' : 'gateway', selector: selectorOf(draft) },
    tools: { execution: none && !isSdk ? 'cloud' : 'executor', allow: namesOf(draft.allow) },
    limits: given({ ...counts, timeoutMs: isGiven(timeoutMs) ? Math.round(timeoutMs * 1000) : undefined }),
    ...given({ maxAttempts }),
    output:
      draft.output === 'json'
        ? { mode: 'json', ...(jsonSchema === undefined ? {} : { jsonSchema }) }
        : { mode: 'text' },
  };
  return {
    body: {
      config: config as unknown as Schemas['CreateRun']['config'],
      ...(draft.name.trim() ? { name: draft.name.trim() } : {}),
      ...(draft.chat ? { workspace: { chatId: draft.chat, apply: draft.apply } } : {}),
    },
  };
}

function selectorOf({ pool, where, executor, labels, group }: Draft): object {
  return {
    pool,
    ...(where === 'executor' && executor ? { executorId: executor } : {}),
    ...(where === 'labels' ? { labels: labelsOf(labels) } : {}),
    ...(where === 'group' && group.trim() ? { group: group.trim() } : {}),
  };
}

function isGiven(value: number | null | undefined): value is number {
  return typeof value === 'number';
}

/** Without what was left empty. */
function given(values: Record<string, number | null | undefined>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).filter((pair): pair is [string, number] => isGiven(pair[1])));
}

/** Names of tools, a line or a comma each. A name may hold a comma in brackets: `Bash(git add, git commit)`. */
export function namesOf(text: string): string[] {
  return text
    .split(/\n|,(?![^(]*\))/)
    .map((name) => name.trim())
    .filter(Boolean);
}

/** The fields that there are places for. */
const PLACES = [
  'name',
  'prompt',
  'engine.id',
  'engine.model',
  'toolsetId',
  'execution.selector.pool',
  'execution.selector.executorId',
  'execution.selector.labels',
  'execution.selector.group',
  'tools.allow',
  'output.jsonSchema',
  'chatId',
  ...LIMITS.map(({ key }) => (key === 'maxAttempts' ? key : `limits.${key}`)),
];

/** What the server said, at its place. */
export function toldOf(problem: Problem): Told {
  const field = (problem.details as { field?: unknown } | undefined)?.field;
  const text = typeof field === 'string' ? problem.message.replace(`${field}: `, '') : problem.message;
  const said = typeof field === 'string' ? field.replace(/^config\./, '') : guessed(problem);
  const place = PLACES.find((one) => said === one || said.startsWith(`${one}.`) || said.startsWith(`${one}[`));
  return place ? { [place]: text } : { '': problem.message };
}

/** What is not there is something that was named. */
function guessed({ code, message }: Problem): string {
  if (code !== 'NOT_FOUND') return '';
  if (/\bchat\b/.test(message)) return 'chatId';
  return /\btoolset\b/.test(message) ? 'toolsetId' : '';
}
