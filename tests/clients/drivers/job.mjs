// What all drivers of Node share: reading the job, printing the answer.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

// The packages are not beside this file: they are in the folder that `scripts/test` installs them into.
export const packages = join(process.env.KITBAG_TEST_CLIENTS, 'node_modules');
export const load = createRequire(join(packages, 'anchor.js'));

// Makes the job's calls, one after the other. One that is refused stops nothing.
export async function answers(job, call) {
  const made = [];
  for (const { name, arguments: args } of job.calls) {
    try {
      made.push({ result: await call(name, args) });
    } catch (error) {
      made.push({ error: String(error) });
    }
  }
  return made;
}

export async function main(drive) {
  const job = JSON.parse(readFileSync(0, 'utf8'));
  let seen;
  try {
    seen = await drive(job);
  } catch (error) {
    seen = { failure: String(error) };
  }
  process.stdout.write(JSON.stringify(seen) + '\n');
}
