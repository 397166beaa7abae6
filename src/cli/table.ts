/** Tables on a terminal. */

/** Columns padded to their widest cell; the first is set left, the others right. */
export function align(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join("   "),
  );
}

/** Digits in groups of three. */
export function whole(n: number): string {
  return Math.round(n).toLocaleString("en-US");
}
