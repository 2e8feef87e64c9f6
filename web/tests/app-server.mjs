// An MCP server over pipes with a tool that has an app. The app says what it hears and what came of what it tried.
import { createInterface } from 'node:readline';

const PAGE = `<!doctype html><meta charset="utf-8"><title>app</title>
<body><p id="said">nothing yet</p><button id="again">Ask again</button><button id="hidden">Ask hidden</button>
<button id="out">Open</button><pre id="tried"></pre>
<script>
const host = parent;
let id = 0;
const waits = new Map();
const say = (message) => host.postMessage({ jsonrpc: '2.0', ...message }, '*');
const ask = (method, params) => new Promise((done) => { waits.set(++id, done); say({ id, method, params }); });
const show = (text) => { document.getElementById('said').textContent = text; };
addEventListener('message', ({ source, data }) => {
  if (source !== host) return;
  if (data.id !== undefined && !data.method) { waits.get(data.id)?.(data); waits.delete(data.id); return; }
  if (data.method === 'ui/notifications/tool-result') show('result: ' + data.params.content[0].text);
});
const call = async (name) => {
  const { result, error } = await ask('tools/call', { name, arguments: { text: 'from the app' } });
  show(error ? 'refused: ' + error.message : (result.isError ? 'failed: ' : 'called: ') + result.content[0].text);
};
document.getElementById('again').onclick = () => call('echo');
document.getElementById('hidden').onclick = () => call('hidden');
document.getElementById('out').onclick = async () => {
  const { result } = await ask('ui/open-link', { url: 'https://example.org/opened' });
  show(result.isError ? 'not opened' : 'opened');
};
(async () => {
  const { result } = await ask('ui/initialize', {
    protocolVersion: '2026-01-26', appInfo: { name: 'app', version: '1' }, appCapabilities: {},
  });
  say({ method: 'ui/notifications/initialized', params: {} });
  const name = (act) => { try { return String(act()); } catch (error) { return error.name; } };
  const tried = {
    host: result.hostInfo.name,
    origin: self.origin,
    top: name(() => top.document.title),
    around: name(() => parent.document.title),
    cookie: name(() => document.cookie),
    storage: name(() => localStorage.length),
    fetch: await fetch(ELSEWHERE + '/fetch', { mode: 'no-cors' }).then(() => 'reached', (error) => error.name),
    api: await fetch(API + '/v1/session', { credentials: 'include', mode: 'no-cors' }).then(() => 'reached', (error) => error.name),
    popup: name(() => open(ELSEWHERE + '/popup')),
    away: name(() => { top.location = ELSEWHERE + '/top'; }),
  };
  document.getElementById('tried').textContent = JSON.stringify(tried);
  say({ method: 'ui/notifications/size-changed', params: { height: 444 } });
})();
</script></body>`;

const tool = (name, ui) => ({
    name,
    description: name,
    inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    ...(ui ? { _meta: { ui } } : {}),
});
const TOOLS = [
    tool('show', { resourceUri: 'ui://test/page' }),
    tool('echo', { visibility: ['app'] }),
    tool('hidden', { visibility: ['model'] }),
];

function answer(method, params) {
    switch (method) {
        case 'initialize':
            return {
                protocolVersion: params.protocolVersion,
                capabilities: { tools: {}, resources: {} },
                serverInfo: { name: 'apps', version: '1' },
            };
        case 'ping':
            return {};
        case 'tools/list':
            return { tools: TOOLS };
        case 'tools/call':
            return { content: [{ type: 'text', text: `${params.name} says ${params.arguments.text}` }] };
        case 'resources/read': {
            const [elsewhere, api] = process.argv.slice(2);
            const text = PAGE.replaceAll('ELSEWHERE', JSON.stringify(elsewhere)).replaceAll('API', JSON.stringify(api));
            return { contents: [{ uri: params.uri, mimeType: 'text/html;profile=mcp-app', text }] };
        }
        default:
            return undefined;
    }
}

createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined || !method) return;
    const result = answer(method, params);
    const error = { code: -32601, message: `there is no ${method}` };
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) })}\n`);
});
