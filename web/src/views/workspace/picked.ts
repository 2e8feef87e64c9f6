// Files that were chosen or dropped, with the folders they are in.
import type { Picked } from './actions';

export function chosen(files: FileList | null): Picked[] {
  return [...(files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

/** To be called while the drop is handled: afterwards the browser forgets what was dropped. */
export async function dropped(data: DataTransfer): Promise<Picked[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return chosen(data.files);
  const found: Picked[] = [];
  for (const entry of entries) await walk(entry, found);
  return found;
}

async function walk(entry: FileSystemEntry, found: Picked[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
    found.push({ path: entry.fullPath.replace(/^\//, ''), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // It gives a part at a time, and an empty one at the end.
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (part.length === 0) return;
    for (const child of part) await walk(child, found);
  }
}
