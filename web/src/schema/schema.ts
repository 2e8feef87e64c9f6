// What a JSON Schema says about a value, as far as forms look at it.

/** A JSON Schema, as far as forms look at it. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  [key: string]: unknown;
}

/** What is wrong, by JSON pointer. */
export type Problems = Record<string, string>;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A JSON pointer, one step on. */
export function below(pointer: string, key: string | number): string {
  return `${pointer}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** What an error of the API says about single arguments, by JSON pointer. */
export function problemsOf(details: unknown): Problems {
  const list = isObject(details) && Array.isArray(details.problems) ? (details.problems as unknown[]) : [];
  const problems: Problems = {};
  for (const one of list) {
    if (!isObject(one) || typeof one.pointer !== 'string' || typeof one.message !== 'string') continue;
    const before = problems[one.pointer];
    problems[one.pointer] = before ? `${before}; ${one.message}` : one.message;
  }
  return problems;
}

/** A schema without references and `allOf` at its top. A reference that leads nowhere, or round and round, says nothing. */
export function plain(schema: unknown, root: Schema, depth = 0): Schema {
  if (!isObject(schema) || depth > 16) return {};
  let found = schema as Schema;
  if (typeof found.$ref === 'string') {
    const { $ref, ...beside } = found;
    found = { ...plain(pointed($ref as string, root), root, depth + 1), ...beside };
  }
  if (Array.isArray(found.allOf)) {
    const { allOf, ...own } = found;
    found = [...(allOf as unknown[]).map((part) => plain(part, root, depth + 1)), own as Schema].reduce(joined, {});
  }
  return found;
}

function pointed(ref: string, root: Schema): unknown {
  if (!ref.startsWith('#')) return undefined;
  let at: unknown = root;
  for (const step of decodeURIComponent(ref.slice(1)).split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    at = typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[key] : undefined;
  }
  return at;
}

function joined(one: Schema, other: Schema): Schema {
  return {
    ...one,
    ...other,
    ...(one.properties || other.properties ? { properties: { ...one.properties, ...other.properties } } : {}),
    ...(one.required || other.required ? { required: [...(one.required ?? []), ...(other.required ?? [])] } : {}),
  };
}

/** How a value of a schema is edited. */
export type Kind =
  'string' | 'number' | 'boolean' | 'choice' | 'const' | 'object' | 'map' | 'array' | 'tuple' | 'variants' | 'json';

export interface Shape {
  kind: Kind;
  /** The schema, without its null. */
  schema: Schema;
  /** Whether null is allowed beside it. */
  nullable: boolean;
  /** What a choice is between. */
  options: { label: string; value: unknown }[];
  /** What else it can be. */
  variants: Schema[];
}

const isNull = (schema: Schema) => schema.type === 'null' || ('const' in schema && schema.const === null);

/** How a value of this schema is edited; `schema` is already plain. */
export function shape(schema: Schema, root: Schema): Shape {
  const is = (kind: Kind, more: Partial<Shape> = {}): Shape => ({
    kind,
    schema,
    nullable: false,
    options: [],
    variants: [],
    ...more,
  });
  if ('const' in schema) return is('const');
  if (Array.isArray(schema.enum)) {
    const options = schema.enum.filter((value) => value !== null).map((value) => ({ label: shown(value), value }));
    return is('choice', { options, nullable: schema.enum.includes(null) });
  }
  const either = Array.isArray(schema.oneOf) ? schema.oneOf : Array.isArray(schema.anyOf) ? schema.anyOf : undefined;
  // Fields with conditions about which of them are needed: the fields can be shown, the server checks the rest.
  if (either && !schema.properties) {
    const all = either.map((one) => plain(one, root));
    const variants = all.filter((one) => !isNull(one));
    const nullable = variants.length < all.length;
    const { oneOf: _, anyOf: __, ...own } = schema;
    if (variants.length === 1) {
      const inner = shape({ ...variants[0], ...own }, root);
      return { ...inner, nullable: nullable || inner.nullable };
    }
    if (variants.length && variants.every((one) => 'const' in one)) {
      const options = variants.map((one) => ({ label: one.title ?? shown(one.const), value: one.const }));
      return is('choice', { options, nullable });
    }
    if (variants.length) return is('variants', { variants, nullable });
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== 'null');
    const nullable = types.length < schema.type.length;
    if (types.length === 1) return { ...shape({ ...schema, type: types[0] }, root), nullable };
    return is('variants', { variants: types.map((type) => ({ type, title: type })), nullable });
  }
  switch (schema.type ?? (schema.properties ? 'object' : schema.items || schema.prefixItems ? 'array' : undefined)) {
    case 'string':
      return is('string');
    case 'number':
    case 'integer':
      return is('number');
    case 'boolean':
      return is('boolean');
    case 'array':
      return is(Array.isArray(schema.prefixItems) ? 'tuple' : 'array');
    case 'object':
      return is(schema.properties && Object.keys(schema.properties).length ? 'object' : 'map');
    default:
      return is('json');
  }
}

/** Whether a value can be edited as what the schema says, and is not something else altogether. */
export function fits(kind: Kind, value: unknown, of: Shape): boolean {
  if (value === undefined || (value === null && of.nullable)) return true;
  switch (kind) {
    case 'string':
      return typeof value === 'string';
    case 'number':
      return typeof value === 'number';
    case 'boolean':
      return typeof value === 'boolean';
    case 'choice':
      return of.options.some((option) => same(option.value, value));
    case 'const':
      return same(of.schema.const, value);
    case 'object':
    case 'map':
      return isObject(value);
    case 'array':
    case 'tuple':
      return Array.isArray(value);
    default:
      return true;
  }
}

/** Which of several schemas a value most likely follows; the first, if that cannot be seen. */
export function likeliest(variants: Schema[], value: unknown, root: Schema): number {
  const scores = variants.map((variant) => {
    const of = shape(variant, root);
    if (!fits(of.kind, value, of) || value === undefined) return -1;
    if (!isObject(value)) return 1;
    const names = Object.entries(of.schema.properties ?? {});
    if ((of.schema.required ?? []).some((name) => !(name in value))) return 0;
    if (names.some(([name, one]) => name in value && 'const' in one && !same(one.const, value[name]))) return 0;
    return 1 + names.filter(([name]) => name in value).length;
  });
  return Math.max(0, scores.indexOf(Math.max(...scores)));
}

/** What a new value starts as: what is fixed or needed anyway. */
export function blank(schema: unknown, root: Schema, depth = 0): unknown {
  const own = plain(schema, root);
  if ('const' in own) return own.const;
  if ('default' in own) return structuredClone(own.default);
  const of = shape(own, root);
  if (of.kind === 'object' && depth < 8) return complete(of.schema, {}, root, depth + 1);
  if (of.kind === 'map' || of.kind === 'object') return {};
  if (of.kind === 'array' || of.kind === 'tuple') return [];
  if (of.kind === 'variants' && !of.nullable) return blank(of.variants[0], root, depth + 1);
  if (of.nullable) return null;
  return undefined;
}

/** An object with what it needs and what can be known: fixed values, defaults of what must be there, empty lists. */
export function complete(schema: Schema, value: Record<string, unknown>, root: Schema, depth = 0): object {
  const made: Record<string, unknown> = { ...value };
  for (const name of schema.required ?? []) {
    const of = schema.properties?.[name];
    if (!of || name in made) continue;
    const start = blank(of, root, depth + 1);
    if (start !== undefined && start !== null) made[name] = start;
  }
  return made;
}

/** A value in a few words. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? value || '“”' : (JSON.stringify(value) ?? '');
}

export function same(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** What is to be read beside a name: its title, if that says more. */
export function titled(name: string, schema: Schema): string {
  const bare = (text: string) => text.toLowerCase().replaceAll(/[\s_-]/g, '');
  return schema.title && bare(schema.title) !== bare(name) ? `${schema.title} (${name})` : name;
}

/** The limits of a value, in words. */
export function limits(schema: Schema): string | undefined {
  const number = (key: string) => (typeof schema[key] === 'number' ? (schema[key] as number) : undefined);
  const range = (least?: number, most?: number, unit = '') => {
    if (least !== undefined && most !== undefined)
      return least === most ? `exactly ${least}${unit}` : `${least} to ${most}${unit}`;
    if (least !== undefined) return `at least ${least}${unit}`;
    return most === undefined ? undefined : `at most ${most}${unit}`;
  };
  const parts = [
    range(number('minimum'), number('maximum')),
    number('exclusiveMinimum') === undefined ? undefined : `more than ${number('exclusiveMinimum')}`,
    number('exclusiveMaximum') === undefined ? undefined : `less than ${number('exclusiveMaximum')}`,
    number('multipleOf') === undefined ? undefined : `a multiple of ${number('multipleOf')}`,
    range(number('minLength') || undefined, number('maxLength'), ' characters'),
    range(number('minItems') || undefined, number('maxItems'), ' items'),
    typeof schema.pattern === 'string' ? `like ${schema.pattern}` : undefined,
  ];
  return parts.filter(Boolean).join(', ') || undefined;
}
