// What somebody can be here.
import type { Schemas } from '../../../api/client';
import { session } from '../../../data/session.svelte';

type Role = Schemas['OrgRole'];

/** The roles that whoever looks may give. */
export function roles(): Role[] {
  return session.owns ? ['owner', 'admin', 'member'] : ['admin', 'member'];
}

/** What each may do, in words. */
export const WORDS: Record<Role, string> = {
  owner: 'everything, also making owners',
  admin: 'also change what is here, and invite',
  member: 'use tools, make chats, say yes to calls',
};
