// A draft as the API takes it, and what the API has as a draft.
import { api, ask, type Schemas } from '../../../api/client';
import { session } from '../../../data/session.svelte';
import { draftOf as launchOf, lines, type Pair } from '../../servers/draft';
import { toolsets, type Detail } from '../data.svelte';
import { type Draft, type ServerDraft, type SkillDraft } from './draft';
import { bytesOf, ENTRY, sorted } from './skill';

/** What is sent along while somebody types, at the most: of what is larger the server is told the paths. */
const MOST_CHECKED = 256_000;

/** A skill as the API has it. `light` leaves the bytes of large files out, which nobody needs to see what is wrong with SKILL.md. */
export function bundleOf(skill: SkillDraft, light = false): Schemas['AgentSkillEntry'] {
  const bytes = skill.files.reduce((sum, file) => sum + bytesOf(file), 0);
  const without = light && bytes > MOST_CHECKED;
  return {
    format: 'agentskills-v1',
    id: skill.id,
    name: skill.id,
    entry: ENTRY,
    files: skill.files.map((file) => ({
      path: file.path,
      content: without && file.path !== ENTRY ? '' : file.content,
      encoding: file.encoding,
    })),
    enabled: skill.enabled,
  };
}

/** A value that is kept is not sent: nobody has it but the server. */
function valuesOf(pairs: Pair[]): Record<string, string | null> {
  return Object.fromEntries(
    pairs
      .filter((pair) => pair.name.trim())
      .map((pair) => [pair.name.trim(), pair.kept && !pair.value ? null : pair.value]),
  );
}

function serverOf(server: ServerDraft) {
  const way =
    server.way === 'command'
      ? {
          serverType: 'stdio',
          command: server.command.trim(),
          args: lines(server.args),
          env: valuesOf(server.env),
          ...(server.cwd.trim() ? { cwd: server.cwd.trim() } : {}),
        }
      : { serverType: server.serverType, url: server.url.trim(), headers: valuesOf(server.headers) };
  return {
    id: server.name.trim(),
    ...way,
    enabled: server.enabled,
    requiresConfirmation: server.asks,
    ...(server.description.trim() ? { description: server.description.trim() } : {}),
  };
}

/** A skill whose files are as they were need not be sent again. */
function skillOf(skill: SkillDraft, before: readonly SkillDraft[]) {
  const was = before.find(({ key }) => key === skill.key);
  const same = was?.id === skill.id && JSON.stringify(was.files) === JSON.stringify(skill.files);
  return same ? { id: skill.id, enabled: skill.enabled } : bundleOf(skill);
}

function bodyOf(draft: Draft, before: Draft) {
  return {
    ...(draft.id ? { id: draft.id } : {}),
    name: draft.name.trim(),
    description: draft.description.trim() || null,
    visibility: draft.visibility,
    mcpServers: draft.servers.map(serverOf),
    agentSkills: draft.skills.map((skill) => skillOf(skill, before.skills)),
  };
}

/** Makes it, or changes the one that has this id and was `before`. */
export function save(draft: Draft, id: string | undefined, before: Draft): Promise<Detail> {
  const body = bodyOf(draft, before);
  const { org } = session;
  return id === undefined
    ? ask(api.POST('/v1/orgs/{org}/toolsets', { params: { path: { org } }, body }))
    : ask(api.PUT('/v1/orgs/{org}/toolsets/{id}', { params: { path: { org, id } }, body }));
}

export interface Loaded {
  toolset: Detail;
  draft: Draft;
}

/** What is there, to be changed. */
export async function load(id: string, signal: AbortSignal): Promise<Loaded> {
  const toolset = await toolsets.get(id, signal);
  const path = { org: session.org, id };
  const bundles = await Promise.all(
    toolset.agentSkills.map(({ id: skill }) =>
      ask(api.GET('/v1/orgs/{org}/toolsets/{id}/skills/{skill}', { params: { path: { ...path, skill } }, signal })),
    ),
  );
  const draft: Draft = {
    id: '',
    name: toolset.name,
    description: toolset.description ?? '',
    visibility: toolset.visibility === 'private' ? 'private' : 'org',
    // Keys that are the same each time, so that what was kept across a reload is compared with what is there.
    servers: toolset.mcpServers.map((server) => ({
      ...launchOf(server),
      key: `=${server.serverId}`,
      name: server.serverId,
      enabled: server.enabled,
    })),
    skills: bundles.map((bundle) => ({
      key: `=${bundle.id}`,
      id: bundle.id,
      enabled: bundle.enabled ?? true,
      files: sorted(
        bundle.files.map(({ path, content, encoding }) => ({
          path,
          content,
          encoding: encoding === 'base64' ? 'base64' : 'utf8',
        })),
      ),
    })),
  };
  return { toolset, draft };
}
