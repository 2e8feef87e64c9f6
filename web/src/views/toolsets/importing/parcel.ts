// What somebody brings to be installed, in all the ways in which it can come.
import { Problem } from '../../../api/problem';
import { isLitter, pack, type Packable } from './zip';

export interface Parcel {
  /** What it was called where it came from. */
  name: string;
  kind: 'file' | 'folder' | 'url' | 'again';
  body?: Blob;
  url?: string;
  /** The installed toolset that is looked for anew where it came from. */
  toolsetId?: string;
  /** What whoever brings it should know. */
  notes: string[];
}

export function ofFile(file: File): Parcel {
  return { name: file.name, kind: 'file', body: file, notes: [] };
}

/** An address, or the configuration of another program. */
export function ofText(text: string): Parcel {
  const trimmed = text.trim();
  if (/^https?:\/\//i.test(trimmed) && !/\s/.test(trimmed))
    return { name: trimmed, kind: 'url', url: trimmed, notes: [] };
  if (trimmed.startsWith('{') || trimmed.startsWith('//') || trimmed.startsWith('/*'))
    return { name: 'servers.json', kind: 'file', body: new Blob([trimmed]), notes: [] };
  throw new Problem('NOT_IMPORTABLE', 'This is neither an address (https://…) nor a configuration in JSON ({…}).');
}

/** What a chooser of folders gives: each file says its path, which begins with the folder's name. */
export async function ofChosenFolder(list: FileList): Promise<Parcel> {
  const files = [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
  const name = files[0]?.path.split('/')[0] ?? 'folder';
  return folder(
    name,
    files.map(({ path, file }) => ({ path: path.slice(name.length + 1), file })),
  );
}

/**
 * What was dropped. To be called while the drop is handled: afterwards a browser has forgotten it.
 */
export function ofDrop(transfer: DataTransfer): Promise<Parcel>[] {
  const found = [...transfer.items]
    .filter((item) => item.kind === 'file')
    .map((item) => {
      const entry = item.webkitGetAsEntry();
      // What comes from another program, and not from a disk, has none.
      const file = entry ? null : item.getAsFile();
      return entry ? ofEntry(entry) : file && Promise.resolve(ofFile(file));
    })
    .filter((parcel) => parcel !== null);
  if (found.length > 0) return found;
  const text = transfer.getData('text/uri-list').split('\n')[0] || transfer.getData('text/plain');
  return text ? [Promise.resolve().then(() => ofText(text))] : [];
}

async function ofEntry(entry: FileSystemEntry): Promise<Parcel> {
  const { name, files, folder: whole } = await filesOf(entry);
  return whole ? folder(name, files) : ofFile(files[0]!.file);
}

/** A file, or a folder with all its files. */
export interface Dropped {
  name: string;
  folder: boolean;
  files: Packable[];
}

/** The files and folders that were dropped. To be called while the drop is handled, too. */
export function filesDropped(transfer: DataTransfer): Promise<Dropped>[] {
  return [...transfer.items]
    .map((item) => item.webkitGetAsEntry() ?? item.getAsFile())
    .filter((found) => found !== null)
    .map((found) =>
      found instanceof File
        ? Promise.resolve({ name: found.name, folder: false, files: [{ path: found.name, file: found }] })
        : filesOf(found),
    );
}

async function filesOf(entry: FileSystemEntry): Promise<Dropped> {
  const files: Packable[] = [];
  if (entry.isDirectory) await walk(entry as FileSystemDirectoryEntry, '', files);
  else files.push({ path: entry.name, file: await fileOf(entry as FileSystemFileEntry) });
  return { name: entry.name, folder: entry.isDirectory, files };
}

async function walk(directory: FileSystemDirectoryEntry, prefix: string, files: Packable[]): Promise<void> {
  const reader = directory.createReader();
  for (;;) {
    // It gives them in parts, and none when there are no more.
    const part = await new Promise<FileSystemEntry[]>((found, failed) => reader.readEntries(found, failed));
    if (part.length === 0) return;
    for (const entry of part) {
      if (isLitter(entry.name)) continue;
      if (entry.isDirectory) await walk(entry as FileSystemDirectoryEntry, `${prefix}${entry.name}/`, files);
      else files.push({ path: prefix + entry.name, file: await fileOf(entry as FileSystemFileEntry) });
    }
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((found, failed) => entry.file(found, failed));
}

async function folder(name: string, found: Packable[]): Promise<Parcel> {
  const files = found.filter(({ path }) => !path.split('/').some(isLitter));
  const notes = files.some(({ path }) => path === '.kitbagignore')
    ? ['Its .kitbagignore is not read by the page: all its files are in the bundle. “kitbag toolset import” reads it.']
    : [];
  return { name, kind: 'folder', body: await pack(files), notes };
}
