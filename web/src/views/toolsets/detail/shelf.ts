// The files of an installed toolset, to be read. The API gives them as one bundle, so that is fetched once and opened here.
import { session } from '../../../data/session.svelte';
import { toolsets, type Detail } from '../data.svelte';
import { Archive } from '../importing/zip';

let last: { of: string; archive: Promise<Archive | undefined> } | undefined;

/** Nothing if it is too large to be read in a page. */
export function filesOf(toolset: Detail): Promise<Archive | undefined> {
  const of = `${toolset.id} ${toolset.updatedAt}`;
  // Nothing leaves the page: what looks like a secret is no reason not to show somebody their own files.
  if (last?.of !== of)
    last = { of, archive: toolsets.bundle(toolset.id, session.manages).then((blob) => Archive.open(blob)) };
  return last.archive;
}
