// Work that goes on after its call was answered: the tasks extension of the stateless era.

import { randomUUID } from 'node:crypto';

import { Unknown } from './content.mjs';
import { fits } from './questions.mjs';

export const TASKS = 'io.modelcontextprotocol/tasks';

const DONE = { resultType: 'complete' };

export class Tasks {
  #all = new Map();

  /** Starts work that can ask and can be stopped. What the client gets at once. */
  start(work) {
    const now = new Date().toISOString();
    const stop = new AbortController();
    const shown = { taskId: randomUUID(), status: 'working', createdAt: now, lastUpdatedAt: now, ttlMs: 600_000, pollIntervalMs: 100 };
    const task = { shown, stop, questions: new Map() };
    this.#all.set(shown.taskId, task);
    const first = { resultType: 'task', ...shown };
    this.#run(task, work);
    return first;
  }

  async #run(task, work) {
    const silent = async () => {};
    const more = { signal: task.stop.signal, log: silent, progress: silent, ask: (questions) => this.#ask(task, questions) };
    try {
      const result = await work(more);
      this.#becomes(task, 'completed', { result });
    } catch (error) {
      this.#becomes(task, 'failed', { error: { code: -32603, message: error.message } });
    }
  }

  /** Waits until the client has answered all of it. */
  async #ask(task, questions) {
    const answers = Object.entries(questions).map(async ([key, question]) => {
      const id = `${key}-${randomUUID()}`;
      const answer = await new Promise((take) => task.questions.set(id, { question, take }));
      return [key, answer];
    });
    this.#becomes(task, 'input_required');
    return Object.fromEntries(await Promise.all(answers));
  }

  /** What is over stays as it is. */
  #becomes(task, status, more = {}) {
    if (['completed', 'failed', 'cancelled'].includes(task.shown.status)) return;
    task.shown = { ...task.shown, ...more, status, lastUpdatedAt: new Date().toISOString() };
  }

  #find(taskId) {
    const task = this.#all.get(taskId);
    if (task === undefined) throw new Unknown('There is no such task', { taskId });
    return task;
  }

  get({ taskId }) {
    const { shown, questions } = this.#find(taskId);
    const open = Object.fromEntries([...questions].map(([id, { question }]) => [id, question]));
    return { ...DONE, ...shown, ...(shown.status === 'input_required' && { inputRequests: open }) };
  }

  update({ taskId, inputResponses }) {
    const task = this.#find(taskId);
    for (const [id, answer] of Object.entries(inputResponses ?? {})) {
      const open = task.questions.get(id);
      if (open === undefined || !fits(open.question, answer)) continue;
      task.questions.delete(id);
      if (task.questions.size === 0) this.#becomes(task, 'working');
      open.take(answer);
    }
    return DONE;
  }

  cancel({ taskId }) {
    const task = this.#find(taskId);
    this.#becomes(task, 'cancelled');
    task.stop.abort();
    return DONE;
  }
}
