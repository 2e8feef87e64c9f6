// Drives the MCP SDK of TypeScript from before the stateless era.

import { answers, load, main } from './job.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { SSEClientTransport } = load('@modelcontextprotocol/sdk/client/sse.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');

// The library keeps the version to itself on some transports: it is read from the answer as it passes.
function overhear(way) {
  let version = null;
  const start = way.start.bind(way);
  way.start = async () => {
    const { onmessage } = way;
    way.onmessage = (message, extra) => {
      version ??= message.result?.protocolVersion ?? null;
      onmessage(message, extra);
    };
    await start();
  };
  return () => version;
}

await main(async (job) => {
  const options = { requestInit: { headers: job.headers } };
  const way = job.command
    ? new StdioClientTransport({ command: job.command, args: job.args })
    : job.transport === 'sse'
      ? new SSEClientTransport(new URL(job.url), options)
      : new StreamableHTTPClientTransport(new URL(job.url), options);
  const version = overhear(way);
  const client = new Client({ name: 'a-test', version: '1.0.0' });
  await client.connect(way);
  try {
    const listed = await client.listTools();
    return {
      protocolVersion: version(),
      tools: listed.tools.map((tool) => tool.name),
      answers: await answers(job, (name, args) => client.callTool({ name, arguments: args })),
    };
  } finally {
    await client.close();
  }
});
