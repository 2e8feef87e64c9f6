// Agents at work: a machine, a run that is done, one that goes on and one that waits. For what looks at all views.
import { Executor } from '../executor.ts';
import type { Kitbag } from '../kit.ts';
import { PAGE } from './index.ts';

const BREAD = [
  { day: 'Monday', bread: 'sourdough', loaves: 40 },
  { day: 'Friday', bread: 'challah', loaves: 25 },
];
const ANSWER = `The page now lists **what is baked each day**, from the notes:

- Monday: sourdough
- Friday: challah

The style is as it was.`;

export interface Work {
  executor: Executor;
  /** The run that is done. */
  done: string;
  /** The one that goes on. */
  running: string;
}

export async function work(kitbag: Kitbag, chat: string): Promise<Work> {
  const executor = await Executor.start(kitbag, 'workshop', ['gpu', 'group:bakery']);
  const ask = async (prompt: string, config: object = {}, workspace?: object): Promise<string> => {
    const engine = { id: 'gateway.claude.v2', model: 'claude-sonnet-4-5' };
    return (await kitbag.ask('POST', '/agent-runs', { config: { prompt, engine, ...config }, workspace })).id;
  };
  const toolset = { toolsetId: 'app-builder', tools: { allow: ['Read', 'Edit'] } };
  const done = await ask('List on the page what is baked each day, from notes.md.', toolset, { chatId: chat });
  const first = await executor.take();
  await executor.tell(
    first.id,
    {
      kind: 'agent_toolset_applied',
      toolsetId: 'app-builder',
      toolsetName: 'App Builder',
      engineId: 'gateway.claude.v2',
      servers: ['kitbag'],
      skills: [],
    },
    { kind: 'log', level: 'info', message: 'the folder has 3 files' },
    { kind: 'thinking', text: 'The notes have a table. I read it before I change the page.' },
    { kind: 'text', text: 'I read the notes first.' },
    { kind: 'tool_call', callId: 'c1', tool: 'mcp__kitbag__read_table', input: { path: 'notes.md' } },
    {
      kind: 'tool_result',
      callId: 'c1',
      output: [{ type: 'text', text: JSON.stringify(BREAD) }],
      isError: false,
    },
    { kind: 'tool_call', callId: 'c2', tool: 'Edit', input: { file_path: 'site/index.html', new_string: '<ul>…' } },
    { kind: 'tool_result', callId: 'c2', output: 'The file was changed.', isError: false },
    { kind: 'text', text: 'The page has the list now.' },
  );
  const list = '<ul>\n      <li>Monday: sourdough</li>\n      <li>Friday: challah</li>\n    </ul>\n  </body>';
  const page = PAGE.replace('</body>', `  ${list}`);
  const usage = { inputTokens: 18_240, outputTokens: 912, turns: 3, toolCalls: 2 };
  await executor.end(first.id, { state: 'succeeded', output: ANSWER, usage }, { 'site/index.html': page }, first.files);

  const running = await ask('Find spelling mistakes in all texts.', { toolsetId: 'sales' });
  const second = await executor.take();
  await executor.tell(
    second.id,
    { kind: 'text', text: 'I look through `site/` first.' },
    { kind: 'tool_call', callId: 'c1', tool: 'Grep', input: { pattern: 'teh', path: 'site' } },
  );
  await ask('Translate the notes into French.', { engine: { id: 'gateway.codex.v2' } });
  return { executor, done, running };
}
