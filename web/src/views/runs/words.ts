// How runs are spoken of.
import type { Schemas } from '../../api/client';
import { whoIs } from '../../data/who';

export type Run = Schemas['AgentRun'];
export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info';

/** What was asked for, as the server tells it: everything that was left out is filled in. */
export interface Config {
  prompt: { system?: string; instructions: string; inputTemplate?: string };
  toolsetId?: string;
  engine: { id: string; model?: string };
  execution: {
    mode: string;
    selector: { pool: string; labels: string[]; tag?: string; group?: string; executorId?: string };
  };
  tools: { execution: string; allow: string[] };
  limits: Record<string, number>;
  output: { mode: string; jsonSchema?: object };
  maxAttempts: number;
}

export function configOf(run: Run): Config {
  return run.config as unknown as Config;
}

const STATES: Record<string, { word: string; tone: Tone }> = {
  queued: { word: 'Waits', tone: 'warn' },
  leased: { word: 'Begins', tone: 'info' },
  running: { word: 'Running', tone: 'info' },
  succeeded: { word: 'Done', tone: 'good' },
  failed: { word: 'Failed', tone: 'bad' },
  cancelled: { word: 'Cancelled', tone: 'plain' },
  timed_out: { word: 'Took too long', tone: 'bad' },
};
export const ALL_STATES = Object.keys(STATES);

/** A state, in a word. */
export function standing(state: string): { word: string; tone: Tone } {
  return STATES[state] ?? { word: state, tone: 'plain' };
}

export function isOver(state: string): boolean {
  return ['succeeded', 'failed', 'cancelled', 'timed_out'].includes(state);
}

export const ENGINES: Record<string, string> = {
  'gateway.claude.v2': 'Claude Code',
  'gateway.codex.v2': 'Codex',
  'gateway.opencode.v2': 'OpenCode',
  'claude.agent-sdk.v1': 'Claude Agent SDK',
};

export function engineName(id: string): string {
  return ENGINES[id] ?? id;
}

/** Its name; without one, how what it was told begins. */
export function titleOf(run: Run): string {
  if (run.name) return run.name;
  const line = configOf(run).prompt.instructions.trim().split('\n')[0]!.trim();
  return line.length > 90 ? `${line.slice(0, 88)}…` : line;
}

/** Who asked for it. */
export const askedBy = (run: Run): string => whoIs(run.createdBy);

/** A sentence of the server's, as one of the page's. */
export function sentence(text: string): string {
  const words = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(words) ? words : `${words}.`;
}

/** Which executors may take it, in words. */
export function whereOf(run: Run, nameOf: (executor: string) => string): string {
  const { pool, labels, tag, group, executorId } = configOf(run).execution.selector;
  const parts = [
    executorId ? `on ${nameOf(executorId)}` : '',
    [...labels, ...(tag ? [tag] : [])].length ? `with ${[...labels, ...(tag ? [tag] : [])].join(', ')}` : '',
    group ? `of the group ${group}` : '',
  ].filter(Boolean);
  const whose = pool === 'managed' ? 'the operator’s' : 'the organisation’s';
  return parts.length ? `${parts.join(', ')} (${whose})` : `any of ${whose} executors`;
}
