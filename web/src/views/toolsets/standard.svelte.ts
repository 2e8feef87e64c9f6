// The toolset that is taken where none is named: a setting of the organisation.
import { api, ask } from '../../api/client';
import { Problem } from '../../api/problem';
import { resource, type Resource } from '../../data/resource.svelte';
import { session } from '../../data/session.svelte';
import { toasts } from '../../ui/toasts.svelte';

const read = (signal?: AbortSignal) =>
  ask(api.GET('/v1/orgs/{org}/settings', { params: { path: { org: session.org } }, signal }));

/** Its id, or nothing. To be called while a component is made. */
export function standard(): Resource<string | null> {
  return resource(async (signal) => (await read(signal)).toolsets?.defaultToolsetId ?? null, { on: ['tools_changed'] });
}

/** Makes it the default, or none. The settings are one thing: what else is in them stays, also what others change meanwhile. */
export async function setStandard(of: Resource<string | null>, id: string | null, name: string): Promise<void> {
  const before = of.data ?? null;
  of.set(id);
  try {
    for (let tries = 0; !(await change(id)); tries += 1)
      if (tries > 4) throw new Problem('CONFLICT', 'The settings are being changed by somebody else. Try again.');
    toasts.note(id ? `${name} is the default toolset.` : `${name} is not the default toolset any more.`);
  } catch (error) {
    of.set(before);
    toasts.problem(error);
  }
}

/** Whether it was changed; not, if somebody was quicker. */
async function change(id: string | null): Promise<boolean> {
  const params = { path: { org: session.org } };
  const read = api.GET('/v1/orgs/{org}/settings', { params });
  const { limits: _, updatedAt: __, ...settings } = await ask(read);
  const tag = (await read).response.headers.get('etag');
  const answered = await api.PUT('/v1/orgs/{org}/settings', {
    params,
    headers: tag ? { 'if-match': tag } : {},
    body: { ...settings, toolsets: { ...settings.toolsets, defaultToolsetId: id } },
  });
  if (answered.response.status === 412) return false;
  await ask(Promise.resolve(answered));
  return true;
}
