// Something that fits a schema, to try an expression with.
import type { Schema } from '../../../schema/schema';

/** So deep an example goes. */
const DEEP = 5;

export function sample(schema: Schema | null | undefined, name = 'value', depth = 0): unknown {
  if (!schema || depth > DEEP) return {};
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.examples) && schema.examples.length) return schema.examples[0];
  if (schema.enum?.length) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== 'null') : schema.type;
  switch (type) {
    case 'string':
      return /path|file/i.test(name) ? 'notes/hello.md' : name;
    case 'integer':
    case 'number':
      return /port/i.test(name) ? 3000 : 1;
    case 'boolean':
      return true;
    case 'array':
      return [sample(schema.items, name, depth + 1)];
    default:
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, inner]) => [key, sample(inner, key, depth + 1)]),
      );
  }
}

/** What can be written in a configuration of a tool with these schemas. */
export function expressions(input: Schema | null | undefined, output: Schema | null | undefined): string[] {
  const below = (root: string, schema: Schema | null | undefined) => [
    ...Object.keys(schema?.properties ?? {}).map((key) => `${root}.${key}`),
    root,
  ];
  return [...below('$args', input), ...below('$return', output), '$workspace', '$chat_id', '$toolset'];
}

/** A result that has what a configuration speaks of. */
export function sampleResult(config: unknown): unknown {
  const result: Record<string, unknown> = {};
  for (const [, path] of JSON.stringify(config).matchAll(/\$\{?return\.([\w.]+)/g)) {
    const keys = path!.split('.').filter(Boolean);
    let here = result;
    for (const key of keys.slice(0, -1)) here = (here[key] ??= {}) as Record<string, unknown>;
    const last = keys.at(-1);
    if (last !== undefined && typeof here === 'object')
      here[last] ??= sample({ type: /port/i.test(last) ? 'integer' : 'string' }, last);
  }
  return Object.keys(result).length ? result : { output: 'what it returned' };
}
