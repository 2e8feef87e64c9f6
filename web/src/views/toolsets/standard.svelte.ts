// The toolset that is taken where none is named: a setting of the organisation.
import { api, ask, type Schemas } from '../../api/client';
import { resource, type Resource } from '../../data/resource.svelte';
import { session } from '../../data/session.svelte';
import { toasts } from '../../ui/toasts.svelte';

const read = (signal?: AbortSignal) =>
  ask(api.GET('/v1/orgs/{org}/settings', { params: { path: { org: session.org } }, signal }));

/** Its id, or nothing. To be called while a component is made. */
export function standard(): Resource<string | null> {
  return resource(async (signal) => (await read(signal)).toolsets.defaultToolsetId ?? null, { on: ['tools_changed'] });
}

/** Makes it the default, or none. The settings are one thing: what else is in them stays. */
export async function setStandard(of: Resource<string | null>, id: string | null, name: string): Promise<void> {
  const before = of.data ?? null;
  of.set(id);
  try {
    const { limits: _, ...settings } = (await read()) as Schemas['Settings'] & { limits?: unknown };
    const body = { ...settings, toolsets: { ...settings.toolsets, defaultToolsetId: id } };
    await ask(api.PUT('/v1/orgs/{org}/settings', { params: { path: { org: session.org } }, body }));
    toasts.note(id ? `${name} is the default toolset.` : `${name} is not the default toolset any more.`);
  } catch (error) {
    of.set(before);
    toasts.problem(error);
  }
}
