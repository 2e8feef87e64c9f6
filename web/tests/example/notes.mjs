// A small MCP server over standard input and output, for tests and pictures: it keeps notes in memory.
import { createInterface } from 'node:readline';

const text = (description) => ({ type: 'string', description });
const tools = [
    {
        name: 'add_note',
        title: 'Add note',
        description: 'Keep a note.',
        inputSchema: {
            type: 'object',
            properties: { title: text('Its title'), body: text('What it says') },
            required: ['title'],
        },
    },
    {
        name: 'search_notes',
        title: 'Search notes',
        description: 'Find notes that have a word.',
        inputSchema: { type: 'object', properties: { word: text('The word') }, required: ['word'] },
        annotations: { readOnlyHint: true },
    },
];
const notes = [];

function call({ name, arguments: args }) {
    if (name === 'add_note') notes.push(args);
    const found = name === 'add_note' ? notes : notes.filter((note) => JSON.stringify(note).includes(args.word));
    return { content: [{ type: 'text', text: `${found.length} notes` }], structuredContent: { notes: found } };
}

const answers = {
    initialize: ({ protocolVersion }) => ({
        protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'notes', version: '1.0.0' },
    }),
    'tools/list': () => ({ tools }),
    'tools/call': call,
    ping: () => ({}),
};

for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) continue;
    const answer = answers[method];
    const body = answer ? { result: answer(params ?? {}) } : { error: { code: -32601, message: `no ${method}` } };
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...body })}\n`);
}
