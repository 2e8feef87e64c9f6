// Where the packages are that the fixtures stand on. They are installed beside the repository, not in it.

import { createRequire } from 'node:module';
import { join } from 'node:path';

const modules = process.env.KITBAG_TEST_NODE_MODULES;
if (!modules) {
  process.stderr.write('KITBAG_TEST_NODE_MODULES is not set: it is the folder node_modules of the tests\n');
  process.exit(2);
}

/** Loads a package of the tests. */
export const load = createRequire(join(modules, 'index.js'));
