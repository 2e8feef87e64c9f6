// What a draft has, for eyes: the same whether it is only chosen yet or written already.
import type { Schemas } from '../../../api/client';
import { ENTRY } from '../editing/skill';

export type Component = Schemas['BuilderComponent'];

/** A body for `create_toolset`, as the builder writes it. */
export interface Drafted {
  name: string;
  description?: string | null;
  visibility: string;
  mcpServers: Record<string, unknown>[];
  agentSkills: {
    id: string;
    name?: string;
    description?: string;
    files: { path: string; content: string; encoding?: string }[];
  }[];
}

export interface Sketch {
  servers: SketchedServer[];
  skills: SketchedSkill[];
}

export interface SketchedServer {
  id: string;
  /** What is started or dialled. */
  line: string;
  /** Variables and headers, with what stands in place of their values. */
  values: [name: string, value: string][];
}

export interface SketchedSkill {
  id: string;
  about?: string;
  /** What it says, once it is written. */
  text?: string;
}

/** What stands for itself: the address of a server that somebody has yet to name. */
export const isExample = ({ line }: SketchedServer): boolean => /^https?:\/\/example\.(com|org|net)(\/|$)/.test(line);

export function sketchOf(chosen: readonly Component[]): Sketch {
  return {
    servers: chosen.flatMap(({ mcp }) => (mcp ? [serverOf({ ...mcp })] : [])),
    skills: chosen
      .filter(({ kind }) => kind === 'skill')
      .map(({ key, description, skillTemplate }) => ({ id: skillTemplate?.idHint ?? key, about: description })),
  };
}

export function sketchOfDraft(draft: Drafted): Sketch {
  return {
    servers: draft.mcpServers.map(serverOf),
    skills: draft.agentSkills.map(({ id, description, files }) => ({
      id,
      about: description,
      text: files.find(({ path }) => path === ENTRY)?.content,
    })),
  };
}

function serverOf(server: Record<string, unknown>): SketchedServer {
  const { id, command, args, url, env, headers } = server;
  const line = typeof url === 'string' ? url : [command, ...(Array.isArray(args) ? args : [])].join(' ');
  return { id: String(id), line, values: Object.entries({ ...pairs(env), ...pairs(headers) }) };
}

const pairs = (value: unknown): Record<string, string> =>
  typeof value === 'object' && value !== null ? (value as Record<string, string>) : {};

/** The variables that must be set where it runs. */
export function variablesOf({ servers }: Sketch): string[] {
  const text = servers.map(({ line, values }) => [line, ...values.map(([, value]) => value)].join(' ')).join(' ');
  return [...new Set([...text.matchAll(/\$\{ENV:([A-Z0-9_]+)\}/g)].map(([, name]) => name!))].sort();
}
