// What the command palette offers about toolsets.
import { session } from '../../data/session.svelte';
import { palette, type Command } from '../../palette/palette.svelte';
import { router, to } from '../../route/router.svelte';
import { importer } from './importing/importer.svelte';

/** Offers the import and the way to each of these while the component that calls it is shown. */
export function offerCommands(known: () => { id: string; name: string }[]): void {
  palette.offer(() => {
    const commands: Command[] = known().map(({ id, name }) => ({
      id: `toolset-open-${id}`,
      label: `Open toolset ${name}`,
      group: 'Toolsets',
      run: () => router.go(to('toolsets', id)),
    }));
    if (session.manages)
      commands.unshift({
        id: 'toolset-import',
        label: 'Import a toolset',
        group: 'Toolsets',
        run: importer.choose,
      });
    return commands;
  });
}
