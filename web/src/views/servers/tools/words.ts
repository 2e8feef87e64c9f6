// A JSON Schema in words.
import type { Schema } from '../../../schema/schema';

export interface Line {
  name: string;
  type: string;
  required: boolean;
  description?: string;
  /** What else must hold. */
  limits: string[];
  parts: Line[];
}

/** So deep a schema is followed: one may contain itself. */
const DEEPEST = 6;

function resolve(schema: Schema, root: Schema): Schema {
  const ref = schema.$ref;
  if (typeof ref !== 'string' || !ref.startsWith('#/')) return schema;
  let at: unknown = root;
  for (const part of ref.slice(2).split('/')) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
    at = typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[key] : undefined;
  }
  const { $ref: _, ...beside } = schema;
  return typeof at === 'object' && at !== null ? { ...(at as Schema), ...beside } : schema;
}

function choices(schema: Schema): Schema[] {
  for (const key of ['anyOf', 'oneOf']) if (Array.isArray(schema[key])) return schema[key] as Schema[];
  return [];
}

export function typeWords(raw: Schema, root: Schema, depth = 0): string {
  const schema = resolve(raw, root);
  if (depth > DEEPEST) return 'any';
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const several = choices(schema);
  if (several.length) return [...new Set(several.map((one) => typeWords(one, root, depth + 1)))].join(' or ');
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (!types.length) return schema.enum ? 'one of these' : schema.properties ? 'object' : 'anything';
  return types
    .map((type) => {
      if (type === 'array' && schema.items) return `list of ${typeWords(schema.items, root, depth + 1)}`;
      return (
        { array: 'list', null: 'nothing', string: 'text', boolean: 'yes or no', integer: 'whole number' }[type] ?? type
      );
    })
    .join(' or ');
}

const LIMITS: [string, (value: unknown) => string][] = [
  ['default', (value) => `if absent: ${JSON.stringify(value)}`],
  ['enum', (value) => `one of ${(value as unknown[]).map((one) => JSON.stringify(one)).join(', ')}`],
  ['minimum', (value) => `at least ${value}`],
  ['exclusiveMinimum', (value) => `more than ${value}`],
  ['maximum', (value) => `at most ${value}`],
  ['exclusiveMaximum', (value) => `less than ${value}`],
  ['multipleOf', (value) => `a multiple of ${value}`],
  ['minLength', (value) => `at least ${value} characters`],
  ['maxLength', (value) => `at most ${value} characters`],
  ['minItems', (value) => `at least ${value} items`],
  ['maxItems', (value) => `at most ${value} items`],
  ['format', (value) => `as ${value}`],
  ['pattern', (value) => `fits ${value}`],
];

/** The parts of an object, or of the objects in a list. */
export function lines(raw: Schema, root: Schema = raw, depth = 0): Line[] {
  let schema = resolve(raw, root);
  if (depth > DEEPEST) return [];
  if (schema.items && !schema.properties) schema = resolve(schema.items, root);
  const several = choices(schema).map((one) => resolve(one, root));
  const holder = schema.properties ? schema : several.find((one) => one.properties);
  return Object.entries(holder?.properties ?? {}).map(([name, part]) => {
    const whole = resolve(part, root);
    return {
      name,
      type: typeWords(part, root),
      required: (holder?.required ?? []).includes(name),
      description: typeof whole.description === 'string' ? whole.description : undefined,
      limits: LIMITS.filter(([key]) => whole[key] !== undefined && (key !== 'enum' || Array.isArray(whole[key]))).map(
        ([key, words]) => words(whole[key]),
      ),
      parts: lines(part, root, depth + 1),
    };
  });
}
