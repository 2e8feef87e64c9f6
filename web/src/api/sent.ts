// Server-sent events of an answer to any request. The browser's own reader of them can only ask with GET, and says nothing of why it failed.

export interface Sent {
  id: string | undefined;
  name: string;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  data: Record<string, any>;
}

/** The events of a body, as they come. It ends with the body, whether that was whole or not. */
export async function* sent(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Sent> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop() ?? '';
      for (const part of parts) {
        const event = read(part);
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

/** One event. Lines that only say that the connection is alive are none. */
function read(part: string): Sent | undefined {
  let [id, name]: [string | undefined, string] = [undefined, 'message'];
  const data: string[] = [];
  for (const line of part.split(/\r?\n/)) {
    const [, field, value = ''] = /^([^:]+)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (field === 'id') id = value;
    else if (field === 'event') name = value;
    else if (field === 'data') data.push(value);
  }
  if (!data.length) return undefined;
  return { id, name, data: JSON.parse(data.join('\n')) as Sent['data'] };
}
