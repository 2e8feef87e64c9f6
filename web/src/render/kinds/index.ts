// The renderers, by the names that plans have for them. What has none is shown by its shape (Default.svelte).
import type { Component } from 'svelte';
import Code from './Code.svelte';
import Document from './Document.svelte';
import Editor from './Editor.svelte';
import FileDiff from './FileDiff.svelte';
import FileRead from './FileRead.svelte';
import type { Shown } from './kind';
import KeyValue from './KeyValue.svelte';
import PatchDiff from './PatchDiff.svelte';
import Stage from './Stage.svelte';
import Task from './Task.svelte';
import Terminal from './Terminal.svelte';
import TodoList from './TodoList.svelte';
import WebSearch from './WebSearch.svelte';

export const KINDS: Record<string, Component<Shown>> = {
  code: Code,
  document: Document,
  editor: Editor,
  'file-diff': FileDiff,
  'file-read': FileRead,
  frame: Stage,
  html: Stage,
  'key-value': KeyValue,
  'patch-diff': PatchDiff,
  task: Task,
  terminal: Terminal,
  'todo-list': TodoList,
  'web-search': WebSearch,
};
