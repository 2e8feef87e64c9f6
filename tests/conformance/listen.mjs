// Serves on a free port of this machine and says where, as the only line on stdout.

import { createServer } from 'node:http';

const LOCAL = new Set(['127.0.0.1', 'localhost', '[::1]']);

/** Whether a page from elsewhere sent this, by a name that only seems to be ours. */
function foreign(request) {
  const names = [`http://${request.headers.host ?? ''}`, request.headers.origin].filter((name) => name !== undefined);
  return names.some((name) => !URL.canParse(name) || !LOCAL.has(new URL(name).hostname));
}

/** Answers with an error that belongs to no request. */
export function refuse(response, status, code, message) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code, message } }));
}

/** Serves `/mcp`; `handle` gets the request and the response. */
export function listen(handle) {
  const server = createServer((request, response) => {
    if (foreign(request)) return refuse(response, 403, -32000, 'This host or origin is not allowed');
    if (new URL(request.url, 'http://127.0.0.1').pathname !== '/mcp') return refuse(response, 404, -32000, 'There is only /mcp');
    Promise.resolve(handle(request, response)).catch((error) => {
      process.stderr.write(`${error?.stack ?? error}\n`);
      if (!response.headersSent) refuse(response, 500, -32603, 'Internal error');
    });
  });
  server.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${server.address().port}/mcp\n`));
}
