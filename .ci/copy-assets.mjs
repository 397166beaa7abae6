/** Copies what is not TypeScript (scripts for the server, pages) from src to dist, where the built code looks for it. */
import { copyFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { filesBelow, ROOT } from "./fresh.mjs";

/** Copies the assets that differ; gives all their places in dist. */
export function copyAssets() {
  const assets = filesBelow("src").filter((file) => !/\.ts$|(^|\/)tsconfig[^/]*\.json$/.test(file));
  return assets.map((file) => {
    const target = join("dist", relative("src", file));
    const [from, to] = [join(ROOT, file), join(ROOT, target)];
    if (existsSync(to) && readFileSync(to).equals(readFileSync(from))) return target;
    mkdirSync(dirname(to), { recursive: true });
    copyFileSync(from, to);
    return target;
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) copyAssets();
