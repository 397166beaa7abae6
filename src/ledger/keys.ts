/** Names of the ledger's keys. The keys of an account share one slot by their hash tag, whatever the account is called. */

/** The part between the braces: none of an account's own, and no two accounts alike. */
function tag(name: string): string {
  return name.replace(/[%{}]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
}

/** The hash of an account: its balance, and what each spool has booked. */
export function bookKey(prefix: string, account: string): string {
  return `${prefix}ledger:{${tag(account)}}`;
}

/** The book, and the ids of two generations. */
export function bookKeys(prefix: string, account: string): [string, string, string] {
  const book = bookKey(prefix, account);
  return [book, `${book}:ids0`, `${book}:ids1`];
}

/** The hash of a budget: what was granted to whom. */
export function budgetKey(prefix: string, budget: string): string {
  return `${prefix}budget:{${tag(budget)}}`;
}
