// CodeMirror, put together once for all that shows code. This file is a chunk of its own: nothing imports it but by `import()`.
import { closeBrackets, closeBracketsKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit } from '@codemirror/language';
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { MergeView, unifiedMergeView } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { isProse, languageOf } from './language';
import { differences, look } from './look';

export interface Named {
  label: string;
  filename?: string;
  language?: string;
}

/** Something about a place in the text; lines and columns are counted from 1, columns in characters. */
export interface Mark {
  line?: number | null;
  column?: number | null;
  severity: 'error' | 'warning';
  message: string;
}

export interface Setup extends Named {
  value: string;
  readonly: boolean;
  onchange: (value: string) => void;
  onsave?: (value: string) => void;
  /** Whether marks will be put into it: there is room for them beside the lines then. */
  marked?: boolean;
}

const reading: Extension = [
  highlightSpecialChars(),
  drawSelection(),
  search({ top: true }),
  highlightSelectionMatches(),
  bracketMatching(),
  look,
];

const writing: Extension = [
  history(),
  indentOnInput(),
  closeBrackets(),
  highlightActiveLine(),
  highlightActiveLineGutter(),
  keymap.of([...closeBracketsKeymap, ...historyKeymap, indentWithTab]),
];

/** How lines end in a text. What ends them otherwise stays in it as a character, so that nothing is changed by being shown. */
function ending(text: string): string {
  return text.includes('\r\n') && !/(^|[^\r])\n|\r(?!\n)/.test(text) ? '\r\n' : '\n';
}

function named({ label, filename, language }: Named, place: Compartment): Extension {
  return [
    EditorView.contentAttributes.of({ 'aria-label': label }),
    isProse(filename, language) ? EditorView.lineWrapping : [],
    place.of([]),
  ];
}

async function colour(view: EditorView, place: Compartment, { filename, language }: Named): Promise<void> {
  const support = await languageOf(filename, language);
  if (support) view.dispatch({ effects: place.reconfigure(support) });
}

/**
 * An editor in a place of its own. That is a shadow root: there CodeMirror's styles are style sheets that a script made, which the page's
 * policy allows, and not `<style>` elements, which it does not.
 */
export function editor(parent: ShadowRoot, setup: Setup) {
  const language = new Compartment();
  const changeable = new Compartment();
  const lines = new Compartment();
  let said = setup.value;

  const mode = (readonly: boolean): Extension =>
    readonly
      ? [EditorState.readOnly.of(true), EditorView.contentAttributes.of({ 'aria-readonly': 'true', tabindex: '0' })]
      : [
          writing,
          EditorView.contentAttributes.of({
            // What can be written in can be reached by keys; this says so to tools that look for it.
            tabindex: '0',
            'aria-description': 'The Tab key indents. Press Escape and then Tab to leave the editor.',
          }),
        ];

  const save = () => {
    setup.onsave?.(view.state.sliceDoc());
    return setup.onsave !== undefined;
  };

  const view = new EditorView({
    root: parent,
    parent,
    state: EditorState.create({
      doc: EditorState.create({ doc: setup.value, extensions: EditorState.lineSeparator.of(ending(setup.value)) }).doc,
      extensions: [
        lines.of(EditorState.lineSeparator.of(ending(setup.value))),
        setup.marked ? [lintGutter(), keymap.of(lintKeymap)] : [],
        lineNumbers(),
        reading,
        foldGutter(),
        indentUnit.of(/\.(py|rs|java|kt|cs|c|cc|cpp|h)$/.test(setup.filename ?? '') ? '    ' : '  '),
        named(setup, language),
        changeable.of(mode(setup.readonly)),
        keymap.of([
          { key: 'Mod-s', run: save, preventDefault: true },
          ...defaultKeymap,
          ...searchKeymap,
          ...foldKeymap,
        ]),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          said = update.state.sliceDoc();
          setup.onchange(said);
        }),
      ],
    }),
  });
  void colour(view, language, setup);

  return {
    view,
    /** Another text, unless it is the one that is there. The place where one reads stays. */
    show(value: string) {
      if (value === said) return;
      said = value;
      const separator = EditorState.lineSeparator.of(ending(value));
      const next = EditorState.create({ doc: value, extensions: separator }).doc;
      const now = view.state.doc.toString();
      const text = next.toString();
      let start = 0;
      const shorter = Math.min(now.length, text.length);
      while (start < shorter && now[start] === text[start]) start++;
      let end = 0;
      while (end < shorter - start && now[now.length - 1 - end] === text[text.length - 1 - end]) end++;
      view.dispatch({
        changes: { from: start, to: now.length - end, insert: next.slice(start, text.length - end) },
        effects: lines.reconfigure(separator),
      });
    },
    /** Marks places, in place of those that were marked before. */
    mark(marks: readonly Mark[]) {
      view.dispatch(
        setDiagnostics(
          view.state,
          marks.map((mark) => ({ ...span(view.state, mark), severity: mark.severity, message: mark.message })),
        ),
      );
    },
    /** Goes to a place. */
    reveal(line: number, column = 1) {
      const { from } = span(view.state, { line, column });
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: 'center' }) });
      view.focus();
    },
    setReadonly(readonly: boolean) {
      view.dispatch({ effects: changeable.reconfigure(mode(readonly)) });
    },
    destroy: () => view.destroy(),
  };
}

/** Where a mark stands: from its column to the end of the word there, or on the whole line. */
function span(state: EditorState, { line, column }: { line?: number | null; column?: number | null }) {
  const at = state.doc.line(Math.min(Math.max(line ?? 1, 1), state.doc.lines));
  // The text has changed since it was looked at, or the column lies behind a character that is two here.
  const before = [...at.text].slice(0, Math.max((column ?? 1) - 1, 0)).join('').length;
  const from = at.from + before;
  const rest = /^(\w[\w-]*|\S+)/.exec(at.text.slice(before))?.[0].length ?? 0;
  return { from, to: column && rest ? from + rest : at.to } satisfies Pick<Diagnostic, 'from' | 'to'>;
}

/** How much may be compared before it is enough to say that a part differs. */
const EFFORT = { scanLimit: 2000, timeout: 400 };
const FOLDED = { margin: 3, minSize: 6 };

/** Two texts and what differs. */
export function difference(
  parent: ShadowRoot,
  before: string,
  after: string,
  { filename, unified, partial }: { filename?: string; unified: boolean; partial: boolean },
): { destroy: () => void } {
  const side = (label: string, place: Compartment): Extension => [
    partial ? [] : lineNumbers(),
    reading,
    differences,
    EditorState.readOnly.of(true),
    EditorView.contentAttributes.of({ 'aria-readonly': 'true', tabindex: '0' }),
    keymap.of([...defaultKeymap, ...searchKeymap]),
    named({ label, filename }, place),
  ];
  if (unified) {
    const place = new Compartment();
    const view = new EditorView({
      root: parent,
      parent,
      doc: after,
      extensions: [
        side('Changes', place),
        unifiedMergeView({
          original: before,
          mergeControls: false,
          collapseUnchanged: FOLDED,
          diffConfig: EFFORT,
        }),
      ],
    });
    void colour(view, place, { label: '', filename });
    return view;
  }
  const [left, right] = [new Compartment(), new Compartment()];
  const view = new MergeView({
    root: parent,
    parent,
    a: { doc: before, extensions: side('Before', left) },
    b: { doc: after, extensions: side('After', right) },
    collapseUnchanged: FOLDED,
    diffConfig: EFFORT,
  });
  void colour(view.a, left, { label: '', filename });
  void colour(view.b, right, { label: '', filename });
  return view;
}
