// A server of the test's own, which remembers what it was asked for: nothing may get there.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export class Listener {
  readonly asked: string[] = [];
  /** What it has, by path. */
  readonly pages = new Map<string, string>();
  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<Listener> {
    const server = createServer();
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    const listener = new Listener(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    server.on('request', (request, response) => {
      listener.asked.push(request.url ?? '');
      response.setHeader('access-control-allow-origin', '*');
      response.setHeader('content-type', 'text/html; charset=utf-8');
      response.end(listener.pages.get(request.url ?? '') ?? '<!doctype html><title>reached</title>reached');
    });
    return listener;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }
}
