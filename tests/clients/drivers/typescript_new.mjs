// Drives the newest MCP SDK of TypeScript, which knows both eras.

import { answers, load, main } from './job.mjs';

const { Client, SSEClientTransport, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');
const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');

await main(async (job) => {
  const options = { requestInit: { headers: job.headers } };
  const way = job.command
    ? new StdioClientTransport({ command: job.command, args: job.args })
    : job.transport === 'sse'
      ? new SSEClientTransport(new URL(job.url), options)
      : new StreamableHTTPClientTransport(new URL(job.url), options);
  const mode = ['auto', 'legacy'].includes(job.era) ? job.era : { pin: job.era };
  const client = new Client({ name: 'a-test', version: '1.0.0' }, { versionNegotiation: { mode } });
  await client.connect(way);
  try {
    const listed = await client.listTools();
    return {
      protocolVersion: client.getNegotiatedProtocolVersion(),
      tools: listed.tools.map((tool) => tool.name),
      answers: await answers(job, (name, args) => client.callTool({ name, arguments: args })),
    };
  } finally {
    await client.close();
  }
});
