// Chats as a list: made, renamed, deleted.
import { api, ask, type Schemas } from '../../api/client';
import { session } from '../../data/session.svelte';

export type Chat = Schemas['Chat'];

export function createChat(title?: string): Promise<Chat> {
  return ask(
    api.POST('/v1/orgs/{org}/chats', { params: { path: { org: session.org } }, body: title ? { title } : {} }),
  );
}

export async function deleteChat(id: string): Promise<void> {
  await ask(api.DELETE('/v1/orgs/{org}/chats/{chat}', { params: { path: { org: session.org, chat: id } } }));
}

export function renameChat(id: string, title: string | null): Promise<Chat> {
  return ask(
    api.PATCH('/v1/orgs/{org}/chats/{chat}', { params: { path: { org: session.org, chat: id } }, body: { title } }),
  );
}

export function getChats(cursor?: string, limit = 50): Promise<Schemas['List_Chat']> {
  return ask(api.GET('/v1/orgs/{org}/chats', { params: { path: { org: session.org }, query: { limit, cursor } } }));
}
