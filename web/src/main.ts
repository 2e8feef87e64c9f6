import { mount } from 'svelte';
import App from './App.svelte';
import './style/tokens.css';
import './style/base.css';
import { theme } from './data/theme.svelte';
import { router } from './route/router.svelte';

theme.apply();
router.start();
mount(App, { target: document.getElementById('page')! });
