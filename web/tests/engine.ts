// A container engine that has nothing, and fetches an image for as long as a test wants: what it says meanwhile is what Docker says.
import { createServer, type Server } from 'node:http';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class Engine {
  private fetched = false;
  private constructor(
    private readonly server: Server,
    private readonly folder: string,
  ) {}

  static async start(): Promise<Engine> {
    const folder = mkdtempSync(join(tmpdir(), 'kb-eng-'));
    const server = createServer();
    const engine = new Engine(server, folder);
    server.on('request', (request, response) => {
      const path = request.url!.replace(/^\/v[0-9.]+/, '').replace(/\?.*/, '');
      const say = (value: unknown, status = 200) => {
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify(value));
      };
      request.resume();
      if (path === '/_ping') response.end('OK');
      else if (path === '/version') say({ Version: '27.0.0', ApiVersion: '1.46', MinAPIVersion: '1.24' });
      else if (path === '/info') say({ MemoryLimit: true, PidsLimit: true, CpuCfsQuota: true });
      else if (path.endsWith('/json') && path.startsWith('/images/') && path !== '/images/json') {
        if (engine.fetched) say({ Id: `sha256:${'7'.repeat(64)}`, Config: {} });
        else say({ message: 'no such image' }, 404);
      } else if (path === '/images/create') {
        const steps = setInterval(() => {
          const progressDetail = { current: 2_500_000, total: 10_000_000 };
          response.write(`${JSON.stringify({ status: 'Downloading', id: '0a1b', progressDetail })}\n`);
          if (engine.fetched) {
            clearInterval(steps);
            response.end();
          }
        }, 100);
        response.on('close', () => clearInterval(steps));
      } else say([]);
    });
    await new Promise<void>((listens) => server.listen(join(folder, 's.sock'), listens));
    return engine;
  }

  /** What `DOCKER_HOST` is for it. */
  get host(): string {
    return `unix://${join(this.folder, 's.sock')}`;
  }

  /** The image that is being fetched is there. */
  finish(): void {
    this.fetched = true;
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
