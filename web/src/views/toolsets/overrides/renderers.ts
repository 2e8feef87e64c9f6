// The renderers, and what the configuration of each may have. The server has the same table, and refuses what is not in it.

export type KeyType = 'text' | 'artifact' | 'flag' | 'port' | 'any';

export interface Key {
  name: string;
  type: KeyType;
  label: string;
  hint: string;
}

export interface Renderer {
  name: string;
  label: string;
  about: string;
  keys: Key[];
}

const file = (what: string): Key => ({
  name: 'file',
  type: 'text',
  label: 'File',
  hint: `A path in the workspace, such as $args.path: ${what}`,
});
const editable: Key = { name: 'editable', type: 'flag', label: 'Editable', hint: 'It can be changed and saved.' };
const plain = (name: string, label: string, about: string): Renderer => ({ name, label, about, keys: [] });

export const RENDERERS: Renderer[] = [
  plain('default', 'Plain', 'The result as it is, folded where it is long.'),
  {
    name: 'code',
    label: 'Code',
    about: 'A file or a text in a code editor.',
    keys: [
      file('it opens in the editor.'),
      { name: 'content', type: 'text', label: 'Content', hint: 'A text in place of a file, such as $return.output.' },
      { name: 'language', type: 'text', label: 'Language', hint: '“auto” goes by the name of the file.' },
      editable,
    ],
  },
  {
    name: 'document',
    label: 'Document',
    about: 'Markdown, rendered.',
    keys: [
      file('a Markdown file.'),
      { name: 'content', type: 'text', label: 'Content', hint: 'Markdown in place of a file, such as $return.' },
      editable,
    ],
  },
  {
    name: 'html',
    label: 'HTML',
    about: 'A page of the toolset, in a frame of its own, with the data.',
    keys: [
      { name: 'artifact', type: 'artifact', label: 'Page', hint: 'A file of the toolset.' },
      { name: 'content', type: 'text', label: 'Content', hint: 'HTML in place of a page, such as $return.html.' },
      {
        name: 'data',
        type: 'any',
        label: 'Data',
        hint: 'What the page gets as window.__TOOL_DATA__: an expression, or JSON that has some.',
      },
    ],
  },
  {
    name: 'frame',
    label: 'Frame',
    about: 'What a process of the tool serves, in a frame.',
    keys: [
      { name: 'url', type: 'text', label: 'Address', hint: 'Such as http://localhost:$return.port/preview.' },
      { name: 'port', type: 'port', label: 'Port', hint: 'In place of an address: a number, or $return.port.' },
    ],
  },
  {
    name: 'editor',
    label: 'Editor',
    about: 'A file of the workspace, to be edited.',
    keys: [
      { name: 'path', type: 'text', label: 'Path', hint: 'A path in the workspace, such as $args.path.' },
      editable,
    ],
  },
  plain('terminal', 'Terminal', 'A command and what it wrote.'),
  plain('file-diff', 'Changed file', 'What a call changed in a file.'),
  plain('patch-diff', 'Patch', 'A patch, file by file.'),
  plain('web-search', 'Web search', 'Results of a search, with their addresses.'),
  plain('todo-list', 'To-do list', 'Points that are done and to be done.'),
  plain('task', 'Task', 'A task that was given to somebody else.'),
  plain('file-read', 'File that was read', 'A file as it was read.'),
  plain('key-value', 'Key and value', 'An object as a table of its keys.'),
];

export function rendererOf(name: string | null | undefined): Renderer | undefined {
  return RENDERERS.find((one) => one.name === name);
}
