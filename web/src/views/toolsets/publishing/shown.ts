// What the gallery will have of a toolset, before it is there.
import type { Schemas } from '../../../api/client';
import type { Detail } from '../data.svelte';

/** The file that says what a toolset is. One that was made in the page gets it when it is published. */
const MANIFEST = 'toolset.yaml';

export function filesOf(toolset: Detail): string[] {
  return [...new Set([...toolset.files.map(({ path }) => path), MANIFEST])].sort();
}

/** Of an address the gallery tells the host with its port: neither the path, nor who signs in there. */
function hostOf(url: string): string {
  const authority = url.replace(/^.*?:\/\//, '').split(/[/?#\\]/, 1)[0]!;
  return authority.slice(authority.lastIndexOf('@') + 1);
}

/** What a server would start or dial. The folder that it starts in is the publisher's own, and stays with them. */
export function launchOf(server: Schemas['McpServer']) {
  return {
    id: server.id,
    commandLine: server.url ? hostOf(server.url) : server.commandLine,
    env: server.envNames,
    headers: server.headerNames,
    trusted: false,
  };
}
