// The fixture of the stateless era (2026-07-28), over streamable HTTP or, with --stdio, over stdio.

import { randomBytes } from 'node:crypto';

import * as content from './content.mjs';
import { listen } from './listen.mjs';
import { load } from './packages.mjs';
import { NEEDS, fits } from './questions.mjs';
import { TASKS, Tasks } from './tasks.mjs';
import { Broken, findTool, listTools, run } from './tools.mjs';

const sdk = load('@modelcontextprotocol/server');
const { toNodeHandler } = load('@modelcontextprotocol/node');
const { serveStdio } = load('@modelcontextprotocol/server/stdio');
const { z } = load('zod');

const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
  extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true }, [TASKS]: {} },
};

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** Seals what was answered so far, so that a client can carry it but not change it. */
const states = sdk.createRequestStateCodec({ key: randomBytes(32), bind: (ctx) => ctx.mcpReq.method });

const tasks = new Tasks();

/** Whom a change is told; set once it is known who listens. */
let notify;

/** The tool cannot go on before the client has answered. */
class Asked extends Error {
  constructor(questions, answers) {
    super('The client has to answer first');
    Object.assign(this, { questions, answers });
  }
}

/** Turns what is not there into the error that this era has for it. */
async function answer(make) {
  try {
    return await make();
  } catch (error) {
    if (error instanceof content.Unknown) throw new sdk.ProtocolError(sdk.INVALID_PARAMS, error.message, error.data);
    if (error instanceof Broken) throw new sdk.ProtocolError(sdk.INTERNAL_ERROR, error.message);
    throw error;
  }
}

function need(requiredCapabilities) {
  throw new sdk.MissingRequiredClientCapabilityError({ requiredCapabilities });
}

const capabilitiesOf = (ctx) => ctx.mcpReq.envelope?.[sdk.CLIENT_CAPABILITIES_META_KEY] ?? {};

/** What a tool or a prompt can do in one round. What was answered in earlier rounds is answered at once. */
function contextOf(args, ctx) {
  const { mcpReq: request } = ctx;
  const capabilities = capabilitiesOf(ctx);
  const level = request.envelope?.[sdk.LOG_LEVEL_META_KEY];
  const token = request._meta?.progressToken;
  const known = { ...request.requestState()?.answers, ...request.inputResponses };
  return {
    args: args ?? {},
    capabilities,
    signal: request.signal,
    log: async (at, data) => {
      if (level === undefined || LEVELS.indexOf(at) < LEVELS.indexOf(level)) return;
      await request.notify({ method: 'notifications/message', params: { level: at, logger: 'fixture', data } });
    },
    progress: async (progress, total) => {
      if (token === undefined) return;
      await request.notify({ method: 'notifications/progress', params: { progressToken: token, progress, total } });
    },
    ask: async (questions) => {
      const missing = Object.values(questions).map((question) => NEEDS[question.method]).filter((name) => !(name in capabilities));
      if (missing.length > 0) need(Object.fromEntries(missing.map((name) => [name, {}])));
      const open = Object.entries(questions).filter(([key, question]) => !fits(question, known[key]));
      if (open.length > 0) throw new Asked(Object.fromEntries(open), known);
      return Object.fromEntries(Object.keys(questions).map((key) => [key, known[key]]));
    },
    hangUp: () => {},
    changed: (what) => (what === 'tools' ? notify.toolsChanged() : notify.promptsChanged()),
    updated: (uri) => notify.resourceUpdated(uri),
  };
}

/** Runs what may ask, and hands its questions to the client. */
async function round(ctx, make) {
  try {
    return await make();
  } catch (error) {
    if (!(error instanceof Asked)) throw error;
    return sdk.inputRequired({ inputRequests: error.questions, requestState: await states.mint({ answers: error.answers }, ctx) });
  }
}

function call({ params }, ctx) {
  const tool = findTool(params.name);
  const context = contextOf(params.arguments, ctx);
  const passes = (error) => error instanceof Asked || error instanceof sdk.ProtocolError;
  return round(ctx, async () => {
    const able = TASKS in (context.capabilities.extensions ?? {});
    if (tool.task === 'must' && !able) need({ extensions: { [TASKS]: {} } });
    const first = await tool.before?.(context);
    if (tool.task && able) return tasks.start((more) => run(tool, { ...context, ...more, first }, () => false));
    return run(tool, { ...context, first }, passes);
  });
}

/** It knows the schemas of its tools, so that headers can be compared with arguments before a call. */
class Fixture extends sdk.McpServer {
  toolInputSchemaJson(name) {
    return listTools().tools.find((tool) => tool.name === name)?.inputSchema;
  }
}

/** One server for one request. */
function open() {
  const info = { name: 'kitbag-conformance-stateless', version: '1.0.0' };
  const options = { capabilities: CAPABILITIES, instructions: 'A fixture.', requestState: { verify: states.verify } };
  const fixture = new Fixture(info, options);
  const { server } = fixture;
  const on = (method, make) => server.setRequestHandler(method, (request, ctx) => answer(() => make(request, ctx)));
  on('tools/list', listTools);
  on('tools/call', call);
  on('prompts/list', content.listPrompts);
  on('prompts/get', ({ params }, ctx) => round(ctx, () => content.getPrompt(params.name, contextOf(params.arguments, ctx))));
  on('resources/list', content.listResources);
  on('resources/templates/list', content.listTemplates);
  on('resources/read', ({ params }) => content.readResource(params.uri));
  on('completion/complete', ({ params }) => content.complete(params));
  const params = z.looseObject({});
  const extension = (method, make) => server.setRequestHandler(method, { params }, (given, ctx) => answer(() => make(given, ctx)));
  const cached = (result) => ({ ...result, ttlMs: 0, cacheScope: 'private' });
  extension('skills/list', () => cached(content.listSkills()));
  extension('skills/get', ({ uri }) => cached(content.getSkill(uri)));
  extension('resources/directory/read', ({ uri }) => content.readDirectory(uri));
  for (const method of ['get', 'update', 'cancel']) {
    extension(`tasks/${method}`, (given, ctx) => {
      if (!(TASKS in (capabilitiesOf(ctx).extensions ?? {}))) need({ extensions: { [TASKS]: {} } });
      // The answers were taken out of the parameters on their way here.
      return tasks[method]({ ...given, inputResponses: ctx.mcpReq.inputResponses });
    });
  }
  return fixture;
}

function serve() {
  const handler = sdk.createMcpHandler(open, { legacy: 'reject' });
  notify = handler.notify;
  listen(toNodeHandler(handler));
}

function serveProcess() {
  let server;
  serveStdio(() => (server = open()), { legacy: 'reject' });
  notify = {
    toolsChanged: () => server.server.sendToolListChanged(),
    promptsChanged: () => server.server.sendPromptListChanged(),
    resourceUpdated: (uri) => server.server.sendResourceUpdated({ uri }),
  };
}

if (process.argv.includes('--stdio')) serveProcess();
else serve();
