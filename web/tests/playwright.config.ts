import { defineConfig } from '@playwright/test';

// A real browser against the real program. Debian's Chromium; KITBAG_TEST_CHROMIUM names another.
export default defineConfig({
  testDir: '.',
  outputDir: '.results',
  reporter: 'list',
  fullyParallel: true,
  workers: 2,
  forbidOnly: true,
  // Nothing sleeps: these are only for how long to wait for what should come.
  timeout: 90_000,
  expect: { timeout: 20_000 },
  use: {
    viewport: { width: 1280, height: 800 },
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env.KITBAG_TEST_CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--no-first-run',
      ],
    },
  },
});
