// An executor for tests: it is paired and connects as the real one does, and does what the test says in place of an agent.
import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import type { Kitbag } from './kit.ts';

/** A message of `crates/model/src/run/wire.rs`. */
export type Message = Record<string, any> & { type: string };

export interface Attempt {
  runId: string;
  attempt: number;
}

/** A WebSocket, as much of it as is needed: Node's own cannot say who it is. */
class Wire {
  private rest = Buffer.alloc(0);
  private text: Buffer[] = [];
  private constructor(
    private readonly socket: Socket,
    private readonly heard: (text: string) => void,
  ) {}

  static open(url: string, token: string, heard: (text: string) => void): Promise<Wire> {
    const headers = {
      authorization: `Bearer ${token}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
    };
    return new Promise((done, failed) => {
      const asked = request(url.replace(/^ws/, 'http'), { headers });
      asked.on('upgrade', (_, socket: Socket, head) => {
        const wire = new Wire(socket, heard);
        socket.on('data', (bytes: Buffer) => wire.take(bytes));
        socket.on('error', () => {});
        wire.take(head);
        done(wire);
      });
      asked.on('response', (answer) => failed(new Error(`the executor was answered ${answer.statusCode}`)));
      asked.on('error', failed);
      asked.end();
    });
  }

  say(text: string): void {
    this.frame(1, Buffer.from(text));
  }

  end(): Promise<void> {
    if (this.socket.closed) return Promise.resolve();
    const over = new Promise<void>((done) => this.socket.on('close', () => done()));
    this.socket.destroy();
    return over;
  }

  private frame(kind: number, bytes: Buffer): void {
    const long = bytes.length > 65_535;
    const head = Buffer.alloc(long ? 10 : bytes.length > 125 ? 4 : 2);
    head[0] = 0x80 | kind;
    head[1] = 0x80 | (long ? 127 : bytes.length > 125 ? 126 : bytes.length);
    if (long) head.writeBigUInt64BE(BigInt(bytes.length), 2);
    else if (bytes.length > 125) head.writeUInt16BE(bytes.length, 2);
    const mask = randomBytes(4);
    const masked = Buffer.from(bytes.map((byte, at) => byte ^ mask[at % 4]!));
    this.socket.write(Buffer.concat([head, mask, masked]));
  }

  private take(bytes: Buffer): void {
    this.rest = Buffer.concat([this.rest, bytes]);
    for (;;) {
      if (this.rest.length < 2) return;
      const [first, second] = [this.rest[0]!, this.rest[1]! & 0x7f];
      const head = second === 127 ? 10 : second === 126 ? 4 : 2;
      if (this.rest.length < head) return;
      const size =
        second === 127 ? Number(this.rest.readBigUInt64BE(2)) : second === 126 ? this.rest.readUInt16BE(2) : second;
      if (this.rest.length < head + size) return;
      const body = this.rest.subarray(head, head + size);
      this.rest = this.rest.subarray(head + size);
      const kind = first & 0x0f;
      if (kind === 9) this.frame(10, body);
      if (kind > 2) continue;
      this.text.push(body);
      if (!(first & 0x80)) continue;
      this.heard(Buffer.concat(this.text.splice(0)).toString());
    }
  }
}

export class Executor {
  private wire: Wire | undefined;
  private beat: ReturnType<typeof setInterval> | undefined;
  private readonly heard: Message[] = [];
  private waiting: { fits: (message: Message) => boolean; found: (message: Message) => void }[] = [];
  private readonly holding = new Map<string, { id: Attempt; seq: number }>();

  private constructor(
    private readonly kitbag: Kitbag,
    readonly id: string,
    private readonly token: string,
    private readonly url: string,
  ) {}

  /** One that is paired with a token, and not connected yet. */
  static async pair(kitbag: Kitbag, pairingToken: string, name = 'workshop'): Promise<Executor> {
    const body = { pairingToken, name, agentVersion: '0.1.0' };
    const made = await kitbag.request('POST', '/v1/executors/pair', body, {});
    return new Executor(kitbag, made.executorId, made.executorToken, made.gatewayWsUrl);
  }

  /** One of `local` that is there. */
  static async start(kitbag: Kitbag, name?: string, labels: string[] = []): Promise<Executor> {
    const { pairingToken } = await kitbag.ask('POST', '/executors/pairing-tokens', { labels });
    const executor = await Executor.pair(kitbag, pairingToken, name);
    await executor.connect();
    return executor;
  }

  async connect(engines = [{ id: 'gateway.claude.v2', version: '2.1.30' }], capacity = 2): Promise<void> {
    this.wire = await Wire.open(this.url, this.token, (text) => this.hear(JSON.parse(text) as Message));
    const holding = [...this.holding.values()].map(({ id }) => id);
    this.say({ type: 'hello', protocol: 1, version: '0.1.0', engines, capacity, holding });
    await this.next('welcome');
    this.beat = setInterval(
      () => this.say({ type: 'heartbeat', holding: [...this.holding.values()].map(({ id }) => id) }),
      2000,
    );
    // Who forgets it is not held up by it.
    this.beat.unref();
  }

  async disconnect(): Promise<void> {
    clearInterval(this.beat);
    await this.wire?.end();
    this.wire = undefined;
  }

  /** The next message of a kind, which may have come already. */
  next(type: string): Promise<Message> {
    const fits = (message: Message) => message.type === type;
    const at = this.heard.findIndex(fits);
    if (at >= 0) return Promise.resolve(this.heard.splice(at, 1)[0]!);
    return new Promise((found) => this.waiting.push({ fits, found }));
  }

  /** Takes the next run, and begins. */
  async take(): Promise<Message & { id: Attempt }> {
    const run = await this.next('run');
    this.holding.set(run.id.runId, { id: run.id, seq: 0 });
    this.say({ type: 'started', id: run.id });
    return run as Message & { id: Attempt };
  }

  /** Gives the run that it has back: somebody else may do it. */
  refuse(id: Attempt, reason: string): void {
    this.holding.delete(id.runId);
    this.say({ type: 'refused', id, reason });
  }

  /** Tells what happened, and waits until the server has it. */
  async tell(id: Attempt, ...kinds: Record<string, unknown>[]): Promise<void> {
    const held = this.holding.get(id.runId)!;
    const at = new Date().toISOString();
    const events = kinds.map((kind) => ({ seq: ++held.seq, at, ...kind }));
    this.say({ type: 'events', id, events });
    await this.next('ack');
  }

  /** Ends an attempt; the files are what its folder has then, `kept` those that are as the assignment had them. */
  async end(
    id: Attempt,
    outcome: Record<string, unknown>,
    files?: Record<string, string>,
    kept: Record<string, unknown> = {},
  ): Promise<void> {
    const refs = { ...kept };
    for (const [path, text] of Object.entries(files ?? {})) {
      const bytes = Buffer.from(text);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      const address = `/v1/executors/attempts/${id.runId}/${id.attempt}/blobs/${sha256}`;
      const headers = { authorization: `Bearer ${this.token}`, 'content-type': 'application/octet-stream' };
      await this.kitbag.request('PUT', address, new Uint8Array(bytes), headers);
      refs[path] = { sha256, size: bytes.length };
    }
    this.say({ type: 'result', id, outcome, files: files ? refs : null });
    await this.next('ack');
    this.holding.delete(id.runId);
  }

  private say(message: object): void {
    this.wire?.say(JSON.stringify(message));
  }

  private hear(message: Message): void {
    const at = this.waiting.findIndex(({ fits }) => fits(message));
    if (at < 0) this.heard.push(message);
    else this.waiting.splice(at, 1)[0]!.found(message);
  }
}
