// Drives the Claude Agent SDK: a job as JSON on standard input, the SDK's messages as JSON lines on standard output. Before the first
// turn it makes sure that the servers of the job are connected: an agent without its tools would only make something up.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const fail = (reason) => {
  say({ type: 'result', subtype: 'error_during_execution', is_error: true, result: reason });
  process.exit(1);
};

async function sdk() {
  const named = process.env.KITBAG_CLAUDE_AGENT_SDK;
  if (named) return import(pathToFileURL(named).href);
  try {
    // `import` does not look into NODE_PATH; `require.resolve` does.
    return await import(pathToFileURL(createRequire(import.meta.url).resolve('@anthropic-ai/claude-agent-sdk')).href);
  } catch (error) {
    return fail(`the package @anthropic-ai/claude-agent-sdk is not installed where Node finds it: ${error.message}`);
  }
}

const job = JSON.parse(readFileSync(0, 'utf8'));
const { query } = await sdk();
// The prompt is a stream that waits: the servers can be asked for before the model is.
let begin;
const ready = new Promise((resolve) => (begin = resolve));
async function* prompt() {
  await ready;
  yield { type: 'user', message: { role: 'user', content: job.prompt }, parent_tool_use_id: null, session_id: '' };
}

const running = query({
  prompt: prompt(),
  options: {
    cwd: job.cwd,
    model: job.model,
    maxTurns: job.maxTurns,
    mcpServers: job.mcpServers,
    strictMcpConfig: true,
    settingSources: ['project'],
    tools: job.tools,
    allowedTools: job.allowedTools,
    permissionMode: 'dontAsk',
    systemPrompt: { type: 'preset', preset: 'claude_code', append: job.system ?? undefined },
    pathToClaudeCodeExecutable: process.env.KITBAG_CLAUDE_CODE || undefined,
    env: process.env,
  },
});

const wanted = Object.keys(job.mcpServers);
const deadline = Date.now() + 60_000;
for (;;) {
  const known = wanted.length === 0 ? [] : await running.mcpServerStatus();
  const states = wanted.map((name) => [name, known.find((server) => server.name === name)?.status ?? 'pending']);
  const lost = states.filter(([, state]) => state !== 'connected' && state !== 'pending');
  if (lost.length > 0) fail(`MCP servers did not connect: ${lost.map(([name, state]) => `${name} (${state})`).join(', ')}`);
  if (states.every(([, state]) => state === 'connected')) break;
  if (Date.now() > deadline) fail('MCP servers did not connect within a minute');
  await new Promise((resolve) => setTimeout(resolve, 50));
}
begin();
for await (const message of running) {
  say(message);
  if (message.type === 'result') process.exit(message.is_error ? 1 : 0);
}
