// Drives the command line of the MCP Inspector: one run of it per question.

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { answers, main, packages } from './job.mjs';

const PROGRAM = join(packages, '@modelcontextprotocol/inspector/clients/launcher/build/index.js');

function ask(job, ...question) {
  // It calls the stateless era modern, and knows no single version.
  const era = ['auto', 'legacy'].includes(job.era) ? job.era : 'modern';
  const server = job.command ? [job.command, ...job.args] : ['--server-url', job.url, '--transport', job.transport];
  const headers = Object.entries(job.headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]);
  const line = ['--cli', ...server, ...headers, '--protocol-era', era, '--stored-auth-only', '--format', 'json', '--quiet', ...question];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [PROGRAM, ...line], { maxBuffer: 1 << 26 }, (error, out, err) => {
      if (error) reject(new Error(err.trim() || error.message));
      else resolve(JSON.parse(out).result);
    });
  });
}

await main(async (job) => {
  const opened = await ask(job, '--method', 'initialize');
  const listed = await ask(job, '--method', 'tools/list');
  return {
    protocolVersion: opened.protocolVersion,
    tools: listed.tools.map((tool) => tool.name),
    answers: await answers(job, (name, args) =>
      ask(job, '--method', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args)),
    ),
  };
});
