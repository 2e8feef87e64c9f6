// Bundles in the browser: a folder is packed into one, and one is opened to show what is in it.
import type { Unzipped } from 'fflate';
import { Problem } from '../../../api/problem';

export interface Packable {
  path: string;
  file: File;
}

/** What tools leave in a folder while somebody works in it. Nobody means to ship it; `kitbag toolset import` leaves it out too. */
const LITTER = new Set([
  '.git',
  '.hg',
  '.svn',
  '__pycache__',
  '.pytest_cache',
  '.mypy_cache',
  '.ruff_cache',
  '.venv',
  'node_modules',
]);

/** What the server takes at the most. */
const MOST_FILES = 20_000;
const MOST_BYTES = 512 << 20;
/** Above this a folder is packed less tightly: it is packed while the page waits. */
const LARGE = 24 << 20;
/** What is opened to be looked at, at the most. */
const MOST_OPENED = 32 << 20;

export function isLitter(name: string): boolean {
  return LITTER.has(name) || name === '.DS_Store' || name.endsWith('.pyc');
}

/** Packs files into a ZIP. The same files make the same bytes. */
export async function pack(files: Packable[]): Promise<Blob> {
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  if (files.length === 0) throw new Problem('EMPTY', 'The folder has no files.');
  if (files.length > MOST_FILES || bytes > MOST_BYTES)
    throw new Problem(
      'TOO_LARGE',
      `The folder has ${files.length} files and ${bytes} bytes, which no bundle may have.`,
    );
  const { zipSync } = await import('fflate');
  const content: Record<string, Uint8Array> = {};
  for (const { path, file } of [...files].sort((a, b) => (a.path < b.path ? -1 : 1)))
    content[path] = new Uint8Array(await file.arrayBuffer());
  const packed = zipSync(content, { level: bytes > LARGE ? 1 : 6, mtime: new Date(1980, 0, 1) });
  return new Blob([packed as Uint8Array<ArrayBuffer>], { type: 'application/zip' });
}

/** The files of a ZIP with their texts, by path; nothing if it is none, or too large to be looked at. */
export class Archive {
  private constructor(private readonly files: Unzipped) {}

  static async open(blob: Blob): Promise<Archive | undefined> {
    if (blob.size > MOST_OPENED) return undefined;
    const bytes = new Uint8Array(await blob.arrayBuffer());
    if (bytes[0] !== 0x50 || bytes[1] !== 0x4b) return undefined;
    const { unzipSync } = await import('fflate');
    let room = MOST_OPENED;
    try {
      // The sizes are the archive's own words; the server is who checks them.
      const filter = (file: { originalSize: number; name: string }) =>
        !file.name.endsWith('/') && (room -= file.originalSize) >= 0;
      return new Archive(unzipSync(bytes, { filter }));
    } catch {
      return undefined;
    }
  }

  get paths(): string[] {
    return Object.keys(this.files).sort();
  }

  size(path: string): number {
    return this.files[path]?.length ?? 0;
  }

  /** The bytes of a file that is there by this very path. */
  bytes(path: string): Uint8Array {
    return this.files[path] ?? new Uint8Array();
  }

  /** A file by its path, also if everything lies in one folder. */
  find(path: string): string | undefined {
    if (path in this.files) return path;
    const tops = new Set(this.paths.map((one) => one.split('/')[0]));
    const below = `${[...tops][0]}/${path}`;
    return tops.size === 1 && below in this.files ? below : undefined;
  }

  /** Its text; nothing if it is none. */
  text(path: string): string | undefined {
    const found = this.find(path);
    if (found === undefined) return undefined;
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(this.files[found]);
      return text.includes('\0') ? undefined : text;
    } catch {
      return undefined;
    }
  }
}
