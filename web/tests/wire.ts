// A way to a server that can break: what comes through it is cut off when the test says so, and finds its way again afterwards.
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export class BrokenWire {
  private readonly sockets = new Set<Socket>();
  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  /** To a server at `http://127.0.0.1:<port>`. */
  static async to(url: string): Promise<BrokenWire> {
    const port = Number(new URL(url).port);
    const server = createServer();
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    const wire = new BrokenWire(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    server.on('connection', (near) => {
      const far = connect(port, '127.0.0.1');
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        wire.sockets.add(one);
        one.on('error', () => {});
        one.on('close', () => {
          wire.sockets.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
    return wire;
  }

  /** Everything that is under way breaks. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise((done) => this.server.close(done));
  }
}
