// Drives the Claude Agent SDK: a job as JSON on standard input, the SDK's messages as JSON lines on standard output. Before the first
// turn it makes sure that the servers of the job are connected: an agent without its tools would only make something up.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

// What was said must be out before the end: an end by `process.exit` loses what is still in a pipe.
const say = (message) => new Promise((resolve) => process.stdout.write(JSON.stringify(message) + '\n', resolve));
const fail = async (code, message) => {
  await say({ type: 'kitbag_failure', code, message });
  process.exit(1);
};

const job = JSON.parse(readFileSync(0, 'utf8'));
// The package says itself which of its files is to be imported.
const entry = createRequire(join(job.sdk, 'package.json')).resolve(job.sdk);
const { query } = await import(pathToFileURL(entry).href).catch((error) =>
  fail('EXECUTOR_CLI_FAILED', `the Claude Agent SDK in ${job.sdk} cannot be loaded: ${error.message}`),
);

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
    settingSources: ['user'],
    tools: job.tools,
    allowedTools: job.allowedTools,
    permissionMode: 'dontAsk',
    systemPrompt: { type: 'preset', preset: 'claude_code', append: job.system ?? undefined },
    outputFormat: job.schema ? { type: 'json_schema', schema: job.schema } : undefined,
    pathToClaudeCodeExecutable: job.claude ?? undefined,
    env: process.env,
  },
});

const wanted = Object.keys(job.mcpServers);
const deadline = Date.now() + job.patience;
for (;;) {
  const known = wanted.length === 0 ? [] : await running.mcpServerStatus();
  const states = wanted.map((name) => [name, known.find((server) => server.name === name)?.status ?? 'pending']);
  const lost = states.find(([, state]) => state !== 'connected' && (state !== 'pending' || Date.now() > deadline));
  if (lost) {
    await fail('MCP_SERVER_NOT_CONNECTED', `the engine could not connect to the MCP server "${lost[0]}" (${lost[1]})`);
  }
  if (states.every(([, state]) => state === 'connected')) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
begin();
try {
  for await (const message of running) {
    await say(message);
    if (message.type === 'result') process.exit(message.is_error ? 1 : 0);
  }
} catch (error) {
  await fail('EXECUTOR_CLI_FAILED', error.message);
}
