// A toolset made in a test: files, packed as a ZIP.
import { crc32 } from 'node:zlib';
import type { Kitbag } from './kit.ts';

/** Packs files as they are, without making them smaller. */
export function zip(files: Record<string, string | Uint8Array>): Uint8Array {
  const parts: Buffer[] = [];
  const index: Buffer[] = [];
  let at = 0;
  for (const [name, content] of Object.entries(files)) {
    const [path, data] = [Buffer.from(name), Buffer.from(content)];
    const about = Buffer.alloc(26);
    about.writeUInt16LE(20, 0);
    about.writeUInt16LE(0x800, 2);
    about.writeUInt16LE(0x21, 8);
    about.writeUInt32LE(crc32(data), 10);
    about.writeUInt32LE(data.length, 14);
    about.writeUInt32LE(data.length, 18);
    about.writeUInt16LE(path.length, 22);
    const place = Buffer.alloc(14);
    place.writeUInt32LE(at, 10);
    index.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), about, place, path);
    const part = [Buffer.from('PK\x03\x04', 'latin1'), about, path, data];
    parts.push(...part);
    at += part.reduce((sum, one) => sum + one.length, 0);
  }
  const list = Buffer.concat(index);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(Object.keys(files).length, 4);
  end.writeUInt16LE(Object.keys(files).length, 6);
  end.writeUInt32LE(list.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, list, Buffer.from('PK\x05\x06', 'latin1'), end]);
}

export async function chat(kitbag: Kitbag): Promise<string> {
  return (await kitbag.ask<{ id: string }>('POST', '/chats', {})).id;
}

/** Calls a tool and gives the call, which must have gone well unless something else is said. */
export async function call(
  kitbag: Kitbag,
  chat: string,
  toolId: string,
  args: object,
  status = 'success',
): Promise<any> {
  let made = await kitbag.ask('POST', `/chats/${chat}/tool-calls`, { toolId, args });
  if (made.status === 'pending')
    made = await kitbag.ask('POST', `/chats/${chat}/tool-calls/${made.id}/decision`, {
      approve: true,
      digest: made.argsDigest,
    });
  if (made.status !== status) throw new Error(`${toolId}: ${JSON.stringify(made)}`);
  return made;
}
