// The files of a workspace as folders: made once, changed path by path, and read as the rows that are seen.

export interface FileNode {
  kind: 'file';
  name: string;
  path: string;
  parent: FolderNode;
  /** Whether the last run of a tool made or changed it. */
  changed: boolean;
  size?: number;
  /** A link is a file whose content is where it leads. */
  link: boolean;
  /** What a filter looks at. */
  lower?: string;
}

export interface FolderNode {
  kind: 'folder';
  name: string;
  path: string;
  parent: FolderNode | undefined;
  children: Map<string, Node>;
  /** The children in the order they are shown; made when it is first needed. */
  sorted: Node[] | undefined;
  /** How many files are in it, at any depth, and how many of them the last run changed. */
  files: number;
  changed: number;
}

export type Node = FileNode | FolderNode;

export interface Row {
  node: Node;
  level: number;
  /** Its place among its siblings that are shown, and how many those are. */
  place: number;
  of: number;
  open: boolean;
}

export interface Fact {
  size?: number;
  mode?: string;
  changedInLastRun?: boolean;
}

export interface Wanted {
  words: string[];
  onlyChanged: boolean;
}

const LINK = '120000';
const EMPTY_FOLDER = '040000';
const order = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

export class Tree {
  readonly root: FolderNode = folder('', '', undefined);
  readonly #files = new Map<string, FileNode>();

  get size(): number {
    return this.#files.size;
  }

  get changed(): number {
    return this.root.changed;
  }

  file(path: string): FileNode | undefined {
    return this.#files.get(path);
  }

  paths(): IterableIterator<string> {
    return this.#files.keys();
  }

  nodes(): IterableIterator<FileNode> {
    return this.#files.values();
  }

  folder(path: string): FolderNode | undefined {
    let at: FolderNode = this.root;
    for (const name of path.split('/').filter(Boolean)) {
      const next = at.children.get(name);
      if (next?.kind !== 'folder') return undefined;
      at = next;
    }
    return at;
  }

  /** All files below a folder. */
  below(path: string): string[] {
    const from = this.folder(path);
    const found: string[] = [];
    const walk = (at: FolderNode) => {
      for (const child of at.children.values())
        if (child.kind === 'file') found.push(child.path);
        else walk(child);
    };
    if (from) walk(from);
    return found;
  }

  /** Adds a file, or says more about one that is there. */
  put(path: string, fact: Fact = {}): void {
    if (fact.mode === EMPTY_FOLDER) {
      // A folder that nothing is in is not shown; what was taken for a file may turn out to be one.
      this.remove(path);
      return;
    }
    const there = this.#files.get(path) ?? this.#add(path);
    if (fact.size !== undefined) there.size = fact.size;
    if (fact.mode !== undefined) there.link = fact.mode === LINK;
    if (fact.changedInLastRun !== undefined) mark(there, fact.changedInLastRun);
  }

  remove(path: string): void {
    const file = this.#files.get(path);
    if (!file) return;
    mark(file, false);
    this.#files.delete(path);
    for (let at: FolderNode | undefined = file.parent; at; at = at.parent) at.files -= 1;
    drop(file);
  }

  /** From now on these, and no others, are what the last run changed. */
  markOnly(paths: Iterable<string>): void {
    const wanted = new Set(paths);
    for (const file of this.#files.values()) mark(file, wanted.has(file.path));
  }

  /** The rows that are seen: everything in open folders, or, of a filter, what it finds with the folders it is in. */
  rows(open: ReadonlySet<string>, wanted: Wanted): Row[] {
    const rows: Row[] = [];
    const filter = wanted.words.length > 0 || wanted.onlyChanged;
    const list = (at: FolderNode, level: number): number => {
      let place = 0;
      const from = rows.length;
      for (const node of children(at)) {
        if (!filter) {
          const isOpen = node.kind === 'folder' && open.has(node.path);
          rows.push({ node, level, place: ++place, of: at.children.size, open: isOpen });
          if (isOpen) list(node, level + 1);
        } else if (node.kind === 'file') {
          if (fits(node, wanted)) rows.push({ node, level, place: ++place, of: 0, open: false });
        } else if (!wanted.onlyChanged || node.changed > 0) {
          const row = { node, level, place: place + 1, of: 0, open: true };
          const before = rows.push(row);
          list(node, level + 1);
          // A folder in which nothing was found is not shown.
          if (rows.length === before) rows.pop();
          else place += 1;
        }
      }
      if (filter) for (let at = from; at < rows.length; at++) if (rows[at]!.level === level) rows[at]!.of = place;
      return place;
    };
    list(this.root, 1);
    return rows;
  }

  #add(path: string): FileNode {
    const cut = path.lastIndexOf('/');
    const parent = this.#make(cut < 0 ? '' : path.slice(0, cut));
    const file: FileNode = { kind: 'file', name: path.slice(cut + 1), path, parent, changed: false, link: false };
    parent.children.set(file.name, file);
    parent.sorted = undefined;
    for (let at: FolderNode | undefined = parent; at; at = at.parent) at.files += 1;
    this.#files.set(path, file);
    return file;
  }

  #make(path: string): FolderNode {
    let at: FolderNode = this.root;
    if (path === '') return at;
    let end = 0;
    for (const name of path.split('/')) {
      end += name.length;
      let next = at.children.get(name);
      if (next?.kind === 'file') {
        this.remove(next.path);
        next = undefined;
      }
      if (!next) {
        next = folder(name, path.slice(0, end), at);
        at.children.set(name, next);
        at.sorted = undefined;
      }
      at = next;
      end += 1;
    }
    return at;
  }
}

function folder(name: string, path: string, parent: FolderNode | undefined): FolderNode {
  return { kind: 'folder', name, path, parent, children: new Map(), sorted: undefined, files: 0, changed: 0 };
}

function children(of: FolderNode): Node[] {
  return (of.sorted ??= [...of.children.values()].sort((one, other) =>
    one.kind === other.kind ? order.compare(one.name, other.name) : one.kind === 'folder' ? -1 : 1,
  ));
}

/** Takes a node out, with the folders above it that have nothing else. */
function drop(node: Node): void {
  const parent = node.parent;
  if (!parent) return;
  if (parent.children.get(node.name) === node) parent.children.delete(node.name);
  parent.sorted = undefined;
  if (parent.children.size === 0) drop(parent);
}

function mark(file: FileNode, changed: boolean): void {
  if (file.changed === changed) return;
  file.changed = changed;
  for (let at: FolderNode | undefined = file.parent; at; at = at.parent) at.changed += changed ? 1 : -1;
}

export function fits(file: FileNode, { words, onlyChanged }: Wanted): boolean {
  if (onlyChanged && !file.changed) return false;
  const lower = (file.lower ??= file.path.toLowerCase());
  return words.every((word) => lower.includes(word));
}

export function wordsOf(filter: string): string[] {
  return filter.toLowerCase().split(/\s+/).filter(Boolean);
}

/** So few files are all shown at first. */
const FEW = 30;

/** The folders that are open at first. */
export function opened(tree: Tree): string[] {
  const folders = tree.size <= FEW ? [...tree.paths()].flatMap(above) : [];
  // A single folder is opened, for there is nothing else to see.
  for (let at = tree.root; ;) {
    const [only] = at.children.size === 1 ? at.children.values() : [];
    if (only?.kind !== 'folder') return folders;
    folders.push(only.path);
    at = only;
  }
}

/** The folders that a path is in, from the outermost. */
export function above(path: string): string[] {
  const folders: string[] = [];
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) folders.push(path.slice(0, at));
  return folders;
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}
