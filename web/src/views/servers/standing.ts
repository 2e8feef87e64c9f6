// How a server is, in words.
import type { Schemas } from '../../api/client';

export type Server = Schemas['McpServer'];
export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info';

/** What people call it. One of a toolset is known by its id there. */
export function nameOf(server: Server): string {
  return server.userMcp ? server.toolsetName : server.serverId;
}

export function standing(server: Server): { tone: Tone; label: string } {
  if (server.status === 'needs_trust') return { tone: 'warn', label: 'Needs trust' };
  if (!server.enabled) return { tone: 'plain', label: 'Off' };
  switch (server.status) {
    case 'connected':
      return { tone: 'good', label: 'Connected' };
    case 'connecting':
      return { tone: 'info', label: 'Connecting…' };
    case 'requires_auth':
      return { tone: 'warn', label: 'Sign-in needed' };
    case 'error':
      return { tone: 'bad', label: server.missingVariables.length ? 'Variable missing' : 'Error' };
    default:
      if (server.reason?.includes('turned off')) return { tone: 'plain', label: 'Off' };
      // A process whose tools are known starts with the first call.
      return { tone: 'plain', label: server.reason?.includes('first used') ? 'Ready' : 'Not connected' };
  }
}

/** Why it is so; nothing where that needs no words. */
export function reasonOf(server: Server): string | undefined {
  if (server.status === 'connected') return undefined;
  if (server.status === 'needs_trust') return 'Nobody has said yet that it may start.';
  if (server.status === 'error' && server.missingVariables.length) return missing(server.missingVariables);
  const reason = server.error ?? server.reason;
  return reason ? sentence(reason) : undefined;
}

export function missing(names: readonly string[]): string {
  return names.length === 1
    ? `The variable ${names[0]} has no value where Kitbag runs.`
    : `The variables ${names.slice(0, -1).join(', ')} and ${names.at(-1)} have no value where Kitbag runs.`;
}

function sentence(text: string): string {
  const words = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(words) ? words : `${words}.`;
}

export function tools(count: number): string {
  return count === 1 ? '1 tool' : `${count} tools`;
}

const TYPES: Record<string, string> = { stdio: 'Process', sse: 'Web (SSE)', 'streamable-http': 'Web' };

export function typeOf(server: { serverType: string | null }): string {
  return TYPES[server.serverType ?? ''] ?? '';
}
