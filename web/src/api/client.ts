// The one way to the API. What can be asked and what is answered is typed from `docs/openapi.json`.
import createClient from 'openapi-fetch';
import type { components, paths } from './schema';
import { Problem } from './problem';

export const api = createClient<paths>({ baseUrl: '' });

export type Schemas = components['schemas'];

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What was answered; whatever else happened is thrown as a `Problem`. */
export async function ask<T>(request: Promise<Answered<T>>): Promise<T> {
  let answered: Answered<T>;
  try {
    answered = await request;
  } catch (error) {
    throw Problem.of(error);
  }
  if (!answered.response.ok) throw Problem.answered(answered.response.status, answered.error);
  return answered.data as T;
}

/** All of a list, however many pages it has. */
export async function all<T>(
  page: (cursor?: string) => Promise<{ items: T[]; nextCursor?: string | null }>,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const answered = await page(cursor);
    items.push(...answered.items);
    cursor = answered.nextCursor ?? undefined;
  } while (cursor);
  return items;
}
