// The ends of the branches of a chat, and the state that the workspace has at each.
import { all, api, ask, type Schemas } from '../../api/client';
import { session } from '../../data/session.svelte';
import { textOf } from '../chats/tree';

export interface Branch {
  id: string;
  label: string;
  manifest: string;
}

/** The last message of each branch whose workspace has a state, newest first. */
export async function branches(chat: string, signal: AbortSignal): Promise<Branch[]> {
  const messages = await all((cursor) =>
    ask(
      api.GET('/v1/orgs/{org}/chats/{chat}/messages', {
        params: { path: { org: session.org, chat }, query: { cursor, limit: 200 } },
        signal,
      }),
    ),
  );
  const byId = new Map(messages.map((message) => [message.id, message]));
  const parents = new Set(messages.map((message) => message.parentId));
  return messages
    .filter((message) => !parents.has(message.id))
    .reverse()
    .flatMap((message) => {
      // Its own state, or that of the nearest message above it that has one.
      let at: Schemas['Message'] | undefined = message;
      while (at && !at.manifestId) at = at.parentId ? byId.get(at.parentId) : undefined;
      return at?.manifestId ? [{ id: message.id, label: said(message, byId), manifest: at.manifestId }] : [];
    });
}

const LONG = 60;

/** What a message says, or the nearest one above it that says something. */
function said(message: Schemas['Message'], byId: Map<string, Schemas['Message']>): string {
  for (let at: Schemas['Message'] | undefined = message; at; at = at.parentId ? byId.get(at.parentId) : undefined) {
    const text = textOf(at).replaceAll(/\s+/g, ' ').trim();
    if (text) return text.length > LONG ? `${text.slice(0, LONG)}…` : text;
  }
  return 'Without a text';
}
