// How code looks: the page's own colours, so that it turns dark with the page. Loaded with the editor.
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const frame = EditorView.theme({
  '&': {
    height: '100%',
    maxHeight: 'var(--editor-height, none)',
    color: 'var(--ink)',
    backgroundColor: 'transparent',
    fontSize: '0.8125rem',
  },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '0.5rem 0' },
  '.cm-line': { padding: '0 0.75rem 0 0.5rem' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'var(--selection)',
  },
  '.cm-activeLine': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': {
    backgroundColor: 'color-mix(in oklab, var(--hover) 55%, transparent)',
  },
  '.cm-gutters': {
    backgroundColor: 'transparent',
    color: 'var(--quiet)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLineGutter': { backgroundColor: 'transparent', color: 'var(--ink)' },
  '.cm-foldPlaceholder': {
    backgroundColor: 'var(--sunken)',
    border: '1px solid var(--line)',
    color: 'var(--quiet)',
    padding: '0 0.3rem',
  },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', outline: '1px solid var(--accent)' },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'var(--bad-soft)' },
  '.cm-selectionMatch': { backgroundColor: 'var(--accent-soft)' },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-soft)', outline: '1px solid var(--warn)' },
  '.cm-searchMatch-selected': { backgroundColor: 'var(--selection)' },
  '.cm-specialChar': { color: 'var(--bad)' },
  '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--ink)', fontFamily: 'var(--sans)' },
  '.cm-panels.cm-panels-top': { borderBottom: '1px solid var(--line)' },
  '.cm-panel.cm-search': { padding: '0.5rem 2rem 0.5rem 0.5rem' },
  '.cm-panel.cm-search :is(input, button, label)': { fontSize: '0.8125rem' },
  '.cm-textfield': {
    backgroundColor: 'var(--card)',
    border: '1px solid var(--strong-line)',
    borderRadius: 'var(--radius-small)',
    padding: '0.2rem 0.4rem',
  },
  '.cm-button': {
    backgroundImage: 'none',
    backgroundColor: 'var(--card)',
    border: '1px solid var(--strong-line)',
    borderRadius: 'var(--radius-small)',
    color: 'var(--ink)',
    '&:active': { backgroundImage: 'none', backgroundColor: 'var(--hover)' },
  },
  '.cm-panel.cm-search [name=close]': { color: 'var(--quiet)', fontSize: '1.1rem', cursor: 'pointer' },
  '.cm-diagnostic': { padding: '0.3rem 0.6rem', fontFamily: 'var(--sans)', maxWidth: '30rem' },
  '.cm-diagnostic-error': { borderLeft: '4px solid var(--bad)' },
  '.cm-diagnostic-warning': { borderLeft: '4px solid var(--warn)' },
  '.cm-lintRange-error, .cm-lintRange-warning': {
    backgroundImage: 'none',
    paddingBottom: 0,
    textDecoration: 'underline wavy var(--bad) 1px',
    textUnderlineOffset: '3px',
    textDecorationSkipInk: 'none',
  },
  '.cm-lintRange-warning': { textDecorationColor: 'var(--warn)' },
  '.cm-lintRange-active': { backgroundColor: 'var(--bad-soft)' },
  '.cm-lintPoint-error:after': { borderBottomColor: 'var(--bad)' },
  '.cm-lintPoint-warning:after': { borderBottomColor: 'var(--warn)' },
  '.cm-gutter-lint': { width: '1.1rem' },
  '.cm-lint-marker': { width: '0.6rem', height: '0.6rem', marginTop: '0.32rem', borderRadius: '50%' },
  '.cm-lint-marker-error': { content: '""', backgroundColor: 'var(--bad)' },
  '.cm-lint-marker-warning': { content: '""', backgroundColor: 'var(--warn)' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', border: '1px solid var(--line)', color: 'var(--ink)' },
});

const words = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.self], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.escape], color: 'var(--code-number)' },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.propertyName, tags.attributeName],
    color: 'var(--code-name)',
  },
  { tag: [tags.typeName, tags.className, tags.tagName, tags.namespace], color: 'var(--code-type)' },
  { tag: tags.comment, color: 'var(--code-comment)', fontStyle: 'italic' },
  { tag: [tags.meta, tags.processingInstruction], color: 'var(--code-comment)' },
  { tag: tags.heading, fontWeight: '650' },
  { tag: tags.strong, fontWeight: '700' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: tags.strikethrough, textDecoration: 'line-through' },
  { tag: [tags.link, tags.url], color: 'var(--code-name)', textDecoration: 'underline' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

/** What differs between two texts. It is underlined: on a second, deeper ground not every colour of code could be read. */
export const differences = EditorView.theme({
  '&': { height: 'auto' },
  '&.cm-merge-a .cm-changedLine, .cm-deletedChunk': { backgroundColor: 'var(--removed)' },
  '&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine': { backgroundColor: 'var(--added)' },
  '&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText, &.cm-merge-b .cm-deletedText': {
    background: 'none',
    boxShadow: 'inset 0 -2px color-mix(in oklab, var(--bad) 55%, transparent)',
  },
  '&.cm-merge-b .cm-changedText': {
    background: 'none',
    boxShadow: 'inset 0 -2px color-mix(in oklab, var(--good) 55%, transparent)',
  },
  '&.cm-merge-a .cm-changedLineGutter, .cm-deletedLineGutter': { background: 'var(--bad)' },
  '&.cm-merge-b .cm-changedLineGutter': { background: 'var(--good)' },
  '.cm-collapsedLines': {
    background: 'var(--sunken)',
    color: 'var(--quiet)',
    fontFamily: 'var(--sans)',
    padding: '0.3rem 0.75rem',
    '&:before': { content: '"⋯"' },
    '&:after': { content: 'none' },
  },
});

export const look: Extension = [frame, syntaxHighlighting(words)];
