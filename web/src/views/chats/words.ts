// How calls are spoken of.
import type { Call } from './calls.svelte';

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info';

const ERRORS: Record<string, string> = {
  DENIED: 'Denied',
  CANCELLED: 'Cancelled',
  TIMEOUT: 'Took too long',
  INTERRUPTED: 'Interrupted',
};

/** How a call stands, in a word. */
export function standing(call: Call): { word: string; tone: Tone } {
  if (call.status === 'pending') return { word: 'Waits for a yes', tone: 'warn' };
  if (call.status === 'running') return { word: 'Running', tone: 'info' };
  if (call.status === 'success') return { word: 'Done', tone: 'good' };
  const word = ERRORS[call.error?.code ?? ''];
  return { word: word ?? 'Failed', tone: word === 'Denied' || word === 'Cancelled' ? 'plain' : 'bad' };
}

/** How long something took, or takes. */
export function took(from: string, to: string | number): string {
  const milliseconds = Math.max(0, new Date(to).getTime() - new Date(from).getTime());
  if (milliseconds < 1000) return `${milliseconds} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** JSON in which nothing can hide: characters that show nothing, or turn the others round, are written out. */
export function visible(value: unknown): string {
  return (JSON.stringify(value, null, 2) ?? 'undefined').replaceAll(
    /[\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Arguments in one line, each cut short. */
export function brief(args: Record<string, unknown>): string {
  const one = (value: unknown) => {
    const text = JSON.stringify(value) ?? '';
    return text.length > 48 ? `${text.slice(0, 46)}…` : text;
  };
  return Object.entries(args)
    .map(([name, value]) => `${name}: ${one(value)}`)
    .join(', ');
}

/** The name of a tool inside whatever brings it. */
export function ownName(toolId: string): string {
  const mcp = /^mcp:[^:]*:(.*)$/s.exec(toolId);
  return mcp?.[1] ?? toolId.slice(toolId.indexOf(':') + 1);
}
