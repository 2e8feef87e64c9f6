// How what an agent's tool gave back is shown. The server makes no plan for these calls, so it is made here: from how the tool's results
// are shown everywhere, or, of a tool that is an agent's own or not installed any more, by its name.
import { plan as make } from '../../../render/plan';
import { isObject, type Call, type Fields, type Plan } from '../../../render/value';
import type { Tool } from '../../tools/known.svelte';
import type { Run } from '../words';
import type { Item } from './feed.svelte';
import { nameOf } from './output';

export type RunCall = Extract<Item, { kind: 'call' }>;

/** The MCP server that has a toolset's own tools, and those that are built in. */
const OWN_SERVER = 'kitbag';

/** As the server guesses it, and with what engines call theirs. Where two would fit, the first does. */
const BY_NAME: [renderer: string, tools: string[]][] = [
  ['terminal', ['bash', 'execute', 'shell', 'run_command', 'exec']],
  [
    'file-diff',
    ['edit', 'edit_file', 'str_replace', 'replace_in_file', 'update_file', 'write_file', 'write', 'multiedit'],
  ],
  ['patch-diff', ['apply_patch', 'applypatch', 'patch']],
  ['web-search', ['websearch', 'web_search', 'search_web', 'google_search', 'search']],
  ['todo-list', ['todowrite', 'todo_write', 'update_todos', 'todo_list']],
  ['task', ['task']],
  ['file-read', ['read', 'read_file', 'view', 'view_file', 'cat']],
];

/** The id of a tool that Kitbag knows; nothing for one of the agent's own. */
export function toolIdOf(run: Run, name: string): string | undefined {
  const { tool, server } = nameOf(name);
  const { toolsetId, tools } = run.toolset;
  if (server === undefined) return undefined;
  if (server === OWN_SERVER) return toolsetId !== null && tools.includes(tool) ? `${toolsetId}:${tool}` : tool;
  return toolsetId === null ? undefined : `mcp:${toolsetId}~${server}:${tool}`;
}

export const argsOf = (call: RunCall): Fields => (isObject(call.input) ? call.input : {});

/** The plan; nothing where the result is shown by its shape. Of a tool that is not there (`null`) only its name is known. */
export function planFor(run: Run, call: RunCall, tool: Tool | null, result: unknown): Plan | undefined {
  const renderer = tool ? tool.renderer : byName(nameOf(call.tool).tool);
  if (!renderer) return undefined;
  // Where the agent has its folders is known on its machine alone.
  const scene = { args: argsOf(call), result, names: { chat_id: run.chatId } };
  const made = make(renderer, tool?.rendererConfig ?? {}, scene);
  return 'problem' in made ? undefined : { renderer, config: made.config };
}

function byName(name: string): string | undefined {
  return BY_NAME.find(([, tools]) => tools.includes(name.toLowerCase()))?.[0];
}

/**
 * A call of a run as the renderers know calls. It is called one of a foreign server, for which they neither look into the workspace of
 * a chat nor lead there: the agent works on a copy.
 */
export function asCall(run: Run, call: RunCall, result: unknown): Call {
  return {
    id: call.callId,
    chatId: run.chatId,
    messageId: '',
    toolId: `mcp:${call.tool}`,
    args: argsOf(call) as Call['args'],
    argsDigest: '',
    askedBy: '',
    status: call.result?.isError ? 'error' : 'success',
    startedAt: call.at,
    finishedAt: call.result?.at ?? null,
    expiresAt: null,
    requiresConfirmation: false,
    decision: null,
    result,
    resultTruncated: false,
    error: null,
    renderPlan: null,
    logs: null,
    logsCut: 0,
    preManifestId: null,
    postManifestId: null,
    sandbox: null,
    warnings: [],
  };
}
