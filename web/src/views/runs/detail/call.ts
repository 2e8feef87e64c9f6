// A call of an agent, as the renderers know calls.
import { isObject, type Call, type Fields } from '../../../render/value';
import type { Run } from '../words';
import type { Item } from './feed.svelte';

export type RunCall = Extract<Item, { kind: 'call' }>;

export const argsOf = (call: RunCall): Fields => (isObject(call.input) ? call.input : {});

/**
 * It is called one of a foreign server, for which renderers neither look into the workspace of a chat nor lead there: the agent works on a
 * copy.
 */
export function asCall(run: Run, call: RunCall, result: unknown, renderPlan: Call['renderPlan']): Call {
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
    renderPlan,
    logs: null,
    logsCut: 0,
    preManifestId: null,
    postManifestId: null,
    sandbox: null,
    warnings: [],
  };
}
