// A stand-in for providers of models: a server of the test's own that speaks Anthropic's and OpenAI's streams as they are spoken, well or badly, from
// a script. The test says what is answered next and sees afterwards what was asked.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A place in an answer where it waits until the test lets go. */
export class Gate {
  private letGo!: () => void;
  private come!: () => void;
  private readonly open = new Promise<void>((done) => (this.letGo = done));
  /** An answer has come so far, and waits. */
  readonly reached = new Promise<void>((done) => (this.come = done));

  release(): void {
    this.letGo();
  }

  wait(): Promise<void> {
    this.come();
    return this.open;
  }
}

/** One part of an answer. A text is said in the bits that it is given in, so that it can be seen to come bit by bit. */
export type Part =
  | { text: string | string[] }
  | { thinking: string | string[] }
  /** A call of a tool under the name that models see. */
  | { call: string; args: unknown }
  /** The next part, or its next bit, only comes when the test lets go. */
  | { hold: Gate }
  /** The connection breaks here. */
  | { cut: true };

/** What is answered to one question: parts of an answer, or a status and no answer. */
export type Reply = Part[] | { status: number; message?: string; retryAfter?: number };

export interface Asked {
  method: string;
  path: string;
  headers: Record<string, string | string[] | undefined>;
  body: any;
}

const bits = (text: string | string[]) => (typeof text === 'string' ? [text] : text);

/** The end of an answer that breaks off. */
class Cut extends Error {}

/** How one of the two wires says things. */
interface Voice {
  begin(): unknown[];
  text(bit: string, first: boolean): unknown[];
  thinking(bit: string, first: boolean): unknown[];
  call(id: string, name: string, args: string[]): unknown[];
  /** A text or a thinking is over. */
  stop(kind: 'text' | 'thinking'): unknown[];
  end(called: boolean): unknown[];
  write(event: any): string;
}

function anthropic(): Voice {
  let index = -1;
  const start = (content_block: unknown) => ({ type: 'content_block_start', index: ++index, content_block });
  const delta = (delta: unknown) => ({ type: 'content_block_delta', index, delta });
  const over = () => ({ type: 'content_block_stop', index });
  return {
    begin: () => {
      const usage = { input_tokens: 10, output_tokens: 1 };
      const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'stand-in', content: [], usage };
      return [
        { type: 'message_start', message: { ...message, stop_reason: null, stop_sequence: null } },
        { type: 'ping' },
      ];
    },
    text: (text, first) => [...(first ? [start({ type: 'text', text: '' })] : []), delta({ type: 'text_delta', text })],
    thinking: (thinking, first) => [
      ...(first ? [start({ type: 'thinking', thinking: '', signature: '' })] : []),
      delta({ type: 'thinking_delta', thinking }),
    ],
    call: (id, name, args) => [
      start({ type: 'tool_use', id, name, input: {} }),
      ...args.map((partial_json) => delta({ type: 'input_json_delta', partial_json })),
      over(),
    ],
    stop: (kind) => [...(kind === 'thinking' ? [delta({ type: 'signature_delta', signature: 'signed' })] : []), over()],
    end: (called) => {
      const delta = { stop_reason: called ? 'tool_use' : 'end_turn', stop_sequence: null };
      return [{ type: 'message_delta', delta, usage: { output_tokens: 5 } }, { type: 'message_stop' }];
    },
    write: (event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  };
}

function openai(): Voice {
  let calls = 0;
  const chunk = (choices: unknown[], usage: unknown = null) => {
    const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'stand-in' };
    return { ...head, choices, usage };
  };
  const delta = (delta: unknown, finish_reason: string | null = null) => chunk([{ index: 0, delta, finish_reason }]);
  return {
    begin: () => [delta({ role: 'assistant', content: '' })],
    text: (content) => [delta({ content })],
    // As servers beside OpenAI show it.
    thinking: (reasoning_content) => [delta({ reasoning_content })],
    call: (id, name, args) => {
      const index = calls++;
      const begun = { index, id, type: 'function', function: { name, arguments: '' } };
      const bit = (text: string) => delta({ tool_calls: [{ index, function: { arguments: text } }] });
      return [delta({ tool_calls: [begun] }), ...args.map(bit)];
    },
    stop: () => [],
    end: (called) => [
      delta({}, called ? 'tool_calls' : 'stop'),
      chunk([], { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }),
      '[DONE]',
    ],
    write: (event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
  };
}

export class Model {
  readonly asked: Asked[] = [];
  /** What each lists as its models. */
  models = { anthropic: ['claude-stand-in'], openai: ['stand-in', 'stand-in-small'] };
  /** So many who asked hung up in the middle of an answer. */
  hungUp = 0;
  private readonly script: Reply[] = [];
  private calls = 0;

  private constructor(
    private readonly server: Server,
    /** `http://127.0.0.1:<port>`, for `--anthropic-url` and `--openai-url`. */
    readonly url: string,
  ) {}

  static async start(): Promise<Model> {
    const server = createServer();
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    const model = new Model(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    server.on('request', (request, response) => void model.serve(request, response));
    return model;
  }

  /** For `kitbag serve`: both wires lead here. */
  get flags(): string[] {
    return ['--anthropic-url', this.url, '--openai-url', this.url];
  }

  /** What is answered next, after all that was said before; either wire takes from the same script. */
  answers(...replies: Reply[]): void {
    this.script.push(...replies);
  }

  /** How many answers nobody asked for. */
  get unused(): number {
    return this.script.length;
  }

  /** What was asked for answers, without the lists of models. */
  get questions(): Asked[] {
    return this.asked.filter(({ method }) => method === 'POST');
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const bit of request) text += String(bit);
    const path = request.url!.split('?')[0]!;
    const body = text ? JSON.parse(text) : undefined;
    this.asked.push({ method: request.method!, path, headers: request.headers, body });
    response.on('close', () => {
      if (!response.writableFinished) this.hungUp += 1;
    });
    if (path === '/v1/models') {
      const own = 'anthropic-version' in request.headers ? this.models.anthropic : this.models.openai;
      return this.document(response, 200, { object: 'list', data: own.map((id) => ({ id, object: 'model' })) });
    }
    const voice = path === '/v1/messages' ? anthropic() : path === '/v1/chat/completions' ? openai() : undefined;
    const reply = voice && this.script.shift();
    if (!voice || !reply) {
      const message = `the script of the stand-in has no answer for ${path}`;
      return this.document(response, 400, { error: { type: 'invalid_request_error', message } });
    }
    if (!Array.isArray(reply)) {
      if (reply.retryAfter !== undefined) response.setHeader('retry-after', String(reply.retryAfter));
      const error = { type: 'api_error', message: reply.message ?? 'not now' };
      return this.document(response, reply.status, { type: 'error', error });
    }
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    try {
      await this.say(voice, reply, (events) => response.write(events.map(voice.write).join('')));
      response.end();
    } catch (error) {
      if (!(error instanceof Cut)) throw error;
      // What was said before is on its way before the connection goes.
      response.write('', () => response.destroy());
    }
  }

  private async say(voice: Voice, parts: Part[], write: (events: unknown[]) => void): Promise<void> {
    let words: 'text' | 'thinking' | undefined;
    let called = false;
    const end = () => {
      if (words) write(voice.stop(words));
      words = undefined;
    };
    write(voice.begin());
    for (const part of parts) {
      if ('cut' in part) throw new Cut();
      if ('hold' in part) {
        await part.hold.wait();
      } else if ('call' in part) {
        end();
        called = true;
        const text = JSON.stringify(part.args);
        const middle = Math.ceil(text.length / 2);
        write(voice.call(`call_${++this.calls}`, part.call, [text.slice(0, middle), text.slice(middle)]));
      } else {
        // The same kind after a pause is the same block going on.
        const kind = 'text' in part ? 'text' : 'thinking';
        if (words !== kind) end();
        for (const bit of bits('text' in part ? part.text : part.thinking)) {
          write(voice[kind](bit, words !== kind));
          words = kind;
        }
      }
    }
    end();
    write(voice.end(called));
  }

  private document(response: ServerResponse, status: number, body: unknown): void {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  }
}
