// The chat in which tools are tried out: one for this browser, made when it is first needed.
import { api, ask, type Schemas } from '../../api/client';
import { Problem } from '../../api/problem';
import { session } from '../../data/session.svelte';
import { createChat } from '../chats/chats';

const KEY = 'kitbag-playground';

export async function playground(): Promise<Schemas['Chat']> {
  const kept = localStorage.getItem(KEY);
  if (kept) {
    try {
      return await ask(api.GET('/v1/orgs/{org}/chats/{chat}', { params: { path: { org: session.org, chat: kept } } }));
    } catch (error) {
      // It was deleted, or this is another Kitbag at the same address.
      if (Problem.of(error).status !== 404) throw error;
    }
  }
  const made = await createChat('Playground');
  localStorage.setItem(KEY, made.id);
  return made;
}
