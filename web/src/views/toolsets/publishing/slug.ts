// The name under which a toolset is in the gallery.
import { api } from '../../../api/client';
import { idOf } from '../editing/draft';

export function suggestSlug(name: string): string {
  const slug = idOf(name, 81);
  return slug.length < 3 ? `${slug || 'my'}-toolset` : slug;
}

/** What is wrong with its form; nothing while nothing is written. */
export function slugProblem(slug: string): string | undefined {
  if (!slug || /^[a-z0-9][a-z0-9-]{2,80}$/.test(slug)) return undefined;
  if (/[^a-z0-9-]/.test(slug)) return 'Lower-case letters, digits and - only.';
  if (slug.startsWith('-')) return 'It begins with a letter or a digit.';
  return slug.length < 3 ? 'It has at least 3 characters.' : 'It has at most 81 characters.';
}

/** Whether a toolset is in the gallery under it now. One that is only kept for somebody is known to the server alone. */
export async function slugTaken(slug: string, signal: AbortSignal): Promise<boolean> {
  const { response } = await api.GET('/v1/toolset-gallery/{slug}', { params: { path: { slug } }, signal });
  return response.ok;
}
