import { defineConfig } from '@playwright/test';
import tests from './playwright.config.ts';

// Makes the pictures of the documentation; `scripts/pictures` runs it.
export default defineConfig(tests, { testMatch: 'pictures.ts', workers: 1, fullyParallel: false });
