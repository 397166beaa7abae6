/**
 * Reads the imports of TypeScript sources without a compiler: a small scanner drops comments, tells strings, templates and
 * regular expressions from code, and leaves words, strings and marks, among which import forms are easy to see. Invariant:
 * what stands in a comment, a string or a template never counts as an import, what stands in a template's `${}` does.
 */

export interface Import {
  /** The module specifier; `undefined` when it is computed at run time. */
  readonly from: string | undefined;
  /** Whether it is erased by the compiler (`import type`, `export type`). */
  readonly typeOnly: boolean;
}

export interface Token {
  readonly kind: "word" | "string" | "mark";
  readonly text: string;
}

const WORD = /[\p{ID_Start}$_#][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /\d[\w.]*/y;
/** Words after which a slash begins a regular expression. */
const BEFORE_REGEX = new Set([
  "return",
  "typeof",
  "case",
  "in",
  "of",
  "delete",
  "void",
  "throw",
  "new",
  "await",
  "yield",
]);

/** Tokens of a source; numbers and regular expressions appear as marks. */
export function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  /** For each open `${`, how many braces are open inside it. */
  const templates: number[] = [];
  let at = 0;

  const sticky = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0];
  };
  const template = (): void => {
    while (at < source.length) {
      const mark = source[at++];
      if (mark === "\\") at++;
      else if (mark === "`") return;
      else if (mark === "$" && source[at] === "{") {
        at++;
        templates.push(0);
        return;
      }
    }
  };
  const quoted = (quote: string): string => {
    const start = ++at;
    while (at < source.length && source[at] !== quote) at += source[at] === "\\" ? 2 : 1;
    return source.slice(start, at++);
  };
  const regex = (): void => {
    let inClass = false;
    for (at++; at < source.length && (inClass || source[at] !== "/"); at++) {
      if (source[at] === "\\") at++;
      else if (source[at] === "[") inClass = true;
      else if (source[at] === "]") inClass = false;
    }
    at++;
  };
  const regexMayStart = (): boolean => {
    const last = tokens.at(-1);
    if (last === undefined) return true;
    if (last.kind === "word") return BEFORE_REGEX.has(last.text);
    return last.kind === "mark" && !")]}0".includes(last.text);
  };

  while (at < source.length) {
    const mark = source[at];
    if (/\s/.test(mark)) at++;
    else if (source.startsWith("//", at)) at = endOf(source, "\n", at);
    else if (source.startsWith("/*", at)) at = endOf(source, "*/", at + 2);
    else if (mark === '"' || mark === "'") tokens.push({ kind: "string", text: quoted(mark) });
    else if (mark === "`") {
      tokens.push({ kind: "mark", text: "0" });
      at++;
      template();
    } else if (mark === "/" && regexMayStart()) {
      regex();
      tokens.push({ kind: "mark", text: "0" });
    } else if (mark === "}" && templates.at(-1) === 0) {
      templates.pop();
      at++;
      template();
    } else {
      const number = sticky(NUMBER);
      const word = number === undefined ? sticky(WORD) : undefined;
      at += (number ?? word ?? mark).length;
      if (word !== undefined) tokens.push({ kind: "word", text: word });
      else tokens.push({ kind: "mark", text: number === undefined ? mark : "0" });
      if (templates.length > 0 && mark === "{") templates[templates.length - 1]++;
      if (templates.length > 0 && mark === "}") templates[templates.length - 1]--;
    }
  }
  return tokens;
}

function endOf(source: string, mark: string, from: number): number {
  const end = source.indexOf(mark, from);
  return end < 0 ? source.length : end + mark.length;
}

/** Every import of a source: static, re-export, side effect, dynamic, `require` and `import type`. */
export function importsOf(source: string): Import[] {
  const tokens = tokenize(source);
  const imports: Import[] = [];
  for (const [i, token] of tokens.entries()) {
    if (token.kind !== "word" || tokens[i - 1]?.text === ".") continue;
    if (token.text === "require" && tokens[i + 1]?.text === "(") imports.push(called(tokens[i + 2]));
    if (token.text === "import" && tokens[i + 1]?.text === "(") imports.push(called(tokens[i + 2]));
    else if (token.text === "import" || token.text === "export") {
      const found = declared(tokens, i);
      if (found !== undefined) imports.push(found);
    }
  }
  return imports;
}

function called(argument: Token | undefined): Import {
  return { from: argument?.kind === "string" ? argument.text : undefined, typeOnly: false };
}

/** The import that a declaration beginning at token `at` makes, if it makes one. */
function declared(tokens: Token[], at: number): Import | undefined {
  const next = tokens[at + 1];
  if (next?.kind === "string") return tokens[at].text === "import" ? { from: next.text, typeOnly: false } : undefined;
  const typeOnly = next?.text === "type" && tokens[at + 2]?.text !== "from";
  for (let i = at + (typeOnly ? 2 : 1); i < tokens.length; i++) {
    const { kind, text } = tokens[i];
    if (kind === "word" && text === "from" && tokens[i + 1]?.kind === "string") {
      return { from: tokens[i + 1].text, typeOnly };
    }
    // Between the keyword and `from` stand names, `type`, `as`, `default`, a star, commas, braces and quoted names only.
    if (kind === "mark" && !"{},*".includes(text)) return undefined;
    if (text === "import" || text === "export") return undefined;
  }
  return undefined;
}
