// Settings as a form has them: everything that a person types is a text, and an empty one means what the server does by itself.
import type { Schemas } from '../../../api/client';

export type Settings = Schemas['Settings'];
export type Wanted = Schemas['OrganizationSettings'];

const MEBIBYTE = 1 << 20;

export interface Draft {
  defaultToolset: string;
  callsPerMinute: number | null;
  concurrentCalls: number | null;
  workspaceMebibytes: number | null;
  executorsInFlight: number | null;
  queuedRuns: number | null;
  chatDays: number | null;
  auditDays: number | null;
  /** Whether only some hosts may be dialled; a line each. */
  onlyHosts: boolean;
  hosts: string;
  /** Whether clients get only some toolsets. */
  onlyToolsets: boolean;
  toolsets: string;
  enabledTools: string;
  disabledTools: string;
  dynamic: boolean;
}

const joined = (list?: string[] | null) => (list ?? []).join('\n');
const lines = (text: string) =>
  text
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter(Boolean);

export function draftOf({ toolsets, resolution, quotas, retention, network }: Settings): Draft {
  const bytes = quotas?.workspaceBytes ?? null;
  return {
    defaultToolset: toolsets?.defaultToolsetId ?? '',
    callsPerMinute: quotas?.callsPerMinute ?? null,
    concurrentCalls: quotas?.concurrentCalls ?? null,
    workspaceMebibytes: bytes === null ? null : bytes / MEBIBYTE,
    executorsInFlight: quotas?.executorsInFlight ?? null,
    queuedRuns: quotas?.queuedRuns ?? null,
    chatDays: retention?.chatDays ?? null,
    auditDays: retention?.auditDays ?? null,
    onlyHosts: Array.isArray(network?.allow),
    hosts: joined(network?.allow),
    onlyToolsets: Array.isArray(resolution?.toolsets),
    toolsets: joined(resolution?.toolsets),
    enabledTools: joined(resolution?.enabledTools),
    disabledTools: joined(resolution?.disabledTools),
    dynamic: resolution?.dynamic ?? false,
  };
}

/** What to send. A field that was left empty is left to the server. */
export function wantedOf(draft: Draft): Wanted {
  const bytes = draft.workspaceMebibytes;
  const listed = (text: string) => (lines(text).length ? lines(text) : null);
  return {
    toolsets: { defaultToolsetId: draft.defaultToolset || null },
    quotas: {
      callsPerMinute: draft.callsPerMinute,
      concurrentCalls: draft.concurrentCalls,
      workspaceBytes: bytes === null ? null : Math.round(bytes * MEBIBYTE),
      executorsInFlight: draft.executorsInFlight,
      queuedRuns: draft.queuedRuns,
    },
    retention: { chatDays: draft.chatDays, auditDays: draft.auditDays },
    network: { allow: draft.onlyHosts ? lines(draft.hosts) : null },
    resolution: {
      toolsets: draft.onlyToolsets ? lines(draft.toolsets) : null,
      enabledTools: listed(draft.enabledTools),
      disabledTools: listed(draft.disabledTools),
      dynamic: draft.dynamic || null,
    },
  };
}
