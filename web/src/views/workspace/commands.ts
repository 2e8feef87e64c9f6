// What the command palette offers while a workspace is shown.
import type { Command } from '../../palette/palette.svelte';
import { router } from '../../route/router.svelte';
import { archive, view } from './content';
import type { Files } from './files.svelte';
import { fits, wordsOf } from './tree';

/** More than that nobody reads, and a palette should not have to go through. */
const MOST = 300;

/** The files that the filter of the tree finds, those of the last run first. */
export function offered(files: Files, filter: string): Command[] {
  void files.version;
  const words = wordsOf(filter);
  const [changed, others]: [string[], string[]] = [[], []];
  for (const node of files.tree.nodes()) {
    const list = node.changed ? changed : others;
    if (list.length < MOST && fits(node, { words, onlyChanged: false })) list.push(node.path);
  }
  return [
    { id: 'workspace-download', label: 'Download the workspace', group: 'Workspace', run: () => download(files) },
    ...[...changed, ...others].slice(0, MOST).map((path) => ({
      id: `workspace-file ${path}`,
      label: `Open file ${path}`,
      group: 'Workspace',
      run: () => router.go(view(files.chat, path, files.fixed)),
    })),
  ];
}

function download(files: Files): void {
  const link = document.createElement('a');
  link.href = archive(files.chat, { manifest: files.fixed });
  link.download = '';
  link.click();
}
