// The draft that a conversation with the builder came to, as somebody begins a new toolset with it.
import { api, ask } from '../../../api/client';
import { Problem } from '../../../api/problem';
import { session } from '../../../data/session.svelte';
import { referencesOnly } from '../../servers/draft';
import { sketchOfDraft, variablesOf, type Drafted } from '../builder/sketch';
import type { Draft } from './draft';
import { serverOf } from './paste';
import { sorted } from './skill';

export interface Begins {
  /** Where what is written on is kept, apart from other toolsets that are not saved. */
  key: string;
  draft: Draft;
  variables: string[];
}

export async function loadDrafted(builder: string, signal: AbortSignal): Promise<Begins> {
  const params = { path: { org: session.org, builder } };
  const found = await ask(api.GET('/v1/orgs/{org}/toolsets/builder/sessions/{builder}', { params, signal }));
  const drafted = found.finalDraft as Drafted | null;
  if (!drafted) throw new Problem('NO_DRAFT', 'This conversation has not come to a draft yet.');
  return { key: `builder:${builder}`, draft: draftOf(drafted), variables: variablesOf(sketchOfDraft(drafted)) };
}

function draftOf({ name, description, visibility, mcpServers, agentSkills }: Drafted): Draft {
  return {
    id: '',
    name,
    description: description ?? '',
    visibility: visibility === 'org' ? 'org' : 'private',
    // Keys that are the same each time, so that what was kept across a reload is compared with what is there.
    servers: mcpServers.map((raw) => ({
      ...serverOf(String(raw.id), raw, referencesOnly(), []),
      key: `=${String(raw.id)}`,
    })),
    skills: agentSkills.map(({ id, files }) => ({
      key: `=${id}`,
      id,
      enabled: true,
      files: sorted(files.map(({ path, content }) => ({ path, content, encoding: 'utf8' }))),
    })),
  };
}
