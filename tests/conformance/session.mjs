// The fixture of the session era (2025-11-25 and before), over streamable HTTP or, with --stdio, over stdio.

import { randomUUID } from 'node:crypto';

import * as content from './content.mjs';
import { listen, refuse } from './listen.mjs';
import { load } from './packages.mjs';
import { NEEDS } from './questions.mjs';
import { Broken, findTool, listTools, run } from './tools.mjs';

const { Server } = load('@modelcontextprotocol/sdk/server/index.js');
const { StdioServerTransport } = load('@modelcontextprotocol/sdk/server/stdio.js');
const { StreamableHTTPServerTransport } = load('@modelcontextprotocol/sdk/server/streamableHttp.js');
const types = load('@modelcontextprotocol/sdk/types.js');
const { z } = load('zod');

const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
  extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } },
};

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

const ANSWERS = {
  'elicitation/create': types.ElicitResultSchema,
  'sampling/createMessage': types.CreateMessageResultSchema,
  'roots/list': types.ListRootsResultSchema,
};

/** All that listen now: a change is told to each of them. */
const sessions = new Set();

/** A method that the package does not know. */
const extension = (method) => z.object({ method: z.literal(method), params: z.looseObject({ uri: z.string().optional() }).optional() });

/** Turns what is not there into the error that this era has for it. */
async function answer(make, code = types.ErrorCode.InvalidParams) {
  try {
    return await make();
  } catch (error) {
    if (error instanceof content.Unknown) throw new types.McpError(code, error.message, error.data);
    if (error instanceof Broken) throw new types.McpError(types.ErrorCode.InternalError, error.message);
    throw error;
  }
}

/** What a tool or a prompt can do while the client waits. */
function contextOf(session, request, extra) {
  const capabilities = session.server.getClientCapabilities() ?? {};
  const token = request.params._meta?.progressToken;
  return {
    args: request.params.arguments ?? {},
    capabilities,
    signal: extra.signal,
    log: async (level, data) => {
      if (LEVELS.indexOf(level) < LEVELS.indexOf(session.level)) return;
      await extra.sendNotification({ method: 'notifications/message', params: { level, logger: 'fixture', data } });
    },
    progress: async (progress, total) => {
      if (token === undefined) return;
      await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: token, progress, total } });
    },
    ask: async (questions) => {
      const missing = Object.values(questions).map((question) => NEEDS[question.method]).filter((need) => !(need in capabilities));
      if (missing.length > 0) throw new Error(`The client does not support ${missing.join(', ')}`);
      const asked = Object.entries(questions).map(async ([key, question]) => {
        return [key, await extra.sendRequest(question, ANSWERS[question.method], { timeout: 600_000 })];
      });
      return Object.fromEntries(await Promise.all(asked));
    },
    hangUp: () => extra.closeSSEStream?.(),
    changed: (what) => tell((one) => (what === 'tools' ? one.server.sendToolListChanged() : one.server.sendPromptListChanged())),
    updated: (uri) => tell((one) => one.watched.has(uri) && one.server.sendResourceUpdated({ uri })),
  };
}

function tell(send) {
  for (const session of sessions) Promise.resolve(send(session)).catch((error) => process.stderr.write(`${error}\n`));
}

async function call(session, request, extra) {
  const tool = findTool(request.params.name);
  const context = contextOf(session, request, extra);
  const first = await tool.before?.(context);
  return run(tool, { ...context, first }, () => false);
}

/** One server for one client. */
function open() {
  const server = new Server({ name: 'kitbag-conformance-session', version: '1.0.0' }, { capabilities: CAPABILITIES, instructions: 'A fixture.' });
  const session = { server, level: 'debug', watched: new Set() };
  const on = (schema, make, code) => server.setRequestHandler(schema, (request, extra) => answer(() => make(request, extra), code));
  on(types.ListToolsRequestSchema, listTools);
  on(types.CallToolRequestSchema, (request, extra) => call(session, request, extra));
  on(types.ListPromptsRequestSchema, content.listPrompts);
  on(types.GetPromptRequestSchema, (request, extra) => content.getPrompt(request.params.name, contextOf(session, request, extra)));
  on(types.ListResourcesRequestSchema, content.listResources);
  on(types.ListResourceTemplatesRequestSchema, content.listTemplates);
  on(types.ReadResourceRequestSchema, (request) => content.readResource(request.params.uri), -32002);
  on(types.SubscribeRequestSchema, (request) => (session.watched.add(request.params.uri), {}));
  on(types.UnsubscribeRequestSchema, (request) => (session.watched.delete(request.params.uri), {}));
  on(types.CompleteRequestSchema, (request) => content.complete(request.params));
  on(types.SetLevelRequestSchema, (request) => ((session.level = request.params.level), {}));
  on(extension('skills/list'), content.listSkills);
  on(extension('skills/get'), (request) => content.getSkill(request.params?.uri));
  on(extension('resources/directory/read'), (request) => content.readDirectory(request.params?.uri));
  server.onclose = () => sessions.delete(session);
  sessions.add(session);
  return server;
}

/** Remembers events, so that a client that comes back gets what it missed. */
class Events {
  #all = [];

  async storeEvent(stream, message) {
    this.#all.push({ stream, message });
    return String(this.#all.length);
  }

  async getStreamIdForEventId(id) {
    return this.#all[Number(id) - 1]?.stream;
  }

  async replayEventsAfter(id, { send }) {
    const stream = await this.getStreamIdForEventId(id);
    for (const [index, event] of this.#all.entries()) {
      // The event that opens a stream has nothing in it.
      if (index >= Number(id) && event.stream === stream && event.message.jsonrpc) await send(String(index + 1), event.message);
    }
    return stream;
  }
}

function serve() {
  const transports = new Map();
  listen(async (request, response) => {
    const id = request.headers['mcp-session-id'];
    if (id !== undefined) {
      const transport = transports.get(id);
      if (transport === undefined) return refuse(response, 404, -32001, 'Session not found');
      return transport.handleRequest(request, response);
    }
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: new Events(),
      retryInterval: 50,
      onsessioninitialized: (started) => void transports.set(started, transport),
      onsessionclosed: (ended) => void transports.delete(ended),
    });
    const server = open();
    await server.connect(transport);
    await transport.handleRequest(request, response);
    // It was no beginning: nobody will come back to it.
    if (transport.sessionId === undefined) await server.close();
  });
}

async function serveProcess() {
  await open().connect(new StdioServerTransport());
  // Questions that nobody will answer any more do not keep it alive.
  process.stdin.on('end', () => process.exit(0));
}

if (process.argv.includes('--stdio')) await serveProcess();
else serve();
