/** The operations of a turn on their way through a worker: who waits is found again, of whichever domain, until it is settled. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { HEAD_GET, QUEUED, SENT, SETTLED } from "#dist/lane/op.js";
import { RAW_SHAPE, ReplyRows } from "#dist/lane/replies.js";
import { NEVER } from "#dist/lane/turn.js";
import { Kind } from "#dist/native/types.js";
import { Batch, EMPTY, MIXED } from "#dist/pool/batch.js";
import { PooledLane } from "#dist/pool/pooled-lane.js";
import { PooledOp } from "#dist/pool/pooled-op.js";
import { OpKind } from "#dist/pool/protocol.js";
import { resolveOptions } from "#dist/options.js";
import { Topology } from "#dist/routing/topology.js";

const { lanes } = resolveOptions({
  domains: { a: { prefixes: ["a:"], nodes: ["127.0.0.1:1"] }, b: { prefixes: ["b:"], nodes: ["127.0.0.1:2"] } },
});
const [first, second] = lanes.map((config) => new PooledLane(config, new Topology(), null as never)) as [
  PooledLane,
  PooledLane,
];

const waiter = (): ((value: unknown) => void) => () => {};

function call(lane: PooledLane, key: string, deadline: number): PooledOp {
  return new PooledOp(lane, OpKind.CALL, 0, HEAD_GET, key, null, waiter(), RAW_SHAPE, deadline);
}

describe("a batch", () => {
  it("of plain GETs of one domain holds no lanes, and gives them back as operations", () => {
    const batch = new Batch();
    batch.begin(500);
    const waiters = [waiter(), waiter()];
    for (const [at, settle] of waiters.entries()) batch.get(first, `a:${at}`, settle);
    assert.deepEqual([batch.kind, batch.lanes, batch.count, batch.earliest], [OpKind.GET, null, 2, 500]);
    const ops = batch.takeAll(SENT);
    assert.deepEqual(
      ops.map(({ lane, key, state, deadline, settle }) => ({ lane, key, state, deadline, settle })),
      waiters.map((settle, at) => ({ lane: first, key: `a:${at}`, state: SENT, deadline: 500, settle })),
    );
    assert.deepEqual(batch.takeAll(SENT), [], "they are not waited for any more");
  });

  it("of several domains knows the domain of each, in order", () => {
    const batch = new Batch();
    const order = [first, first, second, first, second];
    for (const [at, lane] of order.entries()) {
      if (at === 3) batch.add(call(lane, `a:${at}`, 100));
      else batch.get(lane, `${at}`, waiter());
    }
    assert.deepEqual(
      order.map((_, at) => batch.laneOf(at)),
      order,
    );
    assert.equal(batch.kind, MIXED);
    assert.deepEqual(
      batch.takeAll(QUEUED, second).map(({ key }) => key),
      ["2", "4"],
    );
    const live = batch.live();
    assert.deepEqual(live.keys, ["0", "1", "a:3"]);
    assert.deepEqual([live.count, live.laneOf(2)], [3, first]);
  });

  it("gives what is late and goes on with the rest", () => {
    const batch = new Batch();
    batch.begin(300);
    const [early, late, settled] = [call(first, "early", 100), call(first, "late", 900), call(first, "settled", 50)];
    settled.state = SETTLED;
    for (const op of [early, late, settled]) batch.add(op);
    batch.get(first, "a:1", waiter());
    assert.equal(batch.earliest, 50);
    assert.deepEqual(batch.takeLate(100, SENT), [early]);
    assert.equal(batch.earliest, 300);
    early.state = SETTLED;
    assert.deepEqual(
      batch.takeLate(300, SENT).map(({ key }) => key),
      ["a:1"],
    );
    assert.equal(batch.earliest, 900);
    late.state = SETTLED;
    assert.deepEqual([batch.takeLate(NEVER, SENT), batch.earliest, batch.live().count], [[], NEVER, 0]);
  });

  it("of missed GETs hands each back as a load that lands where its caller waits", () => {
    const landed: unknown[] = [];
    const fetch = (key: string) => ({ key, land: (...what: unknown[]) => void landed.push([key, ...what]) });
    const batch = new Batch();
    batch.begin(500);
    for (const key of ["a:1", "a:2"]) batch.fetch(first, fetch(key));
    assert.deepEqual([batch.kind, batch.lanes, batch.keys], [OpKind.FETCH, null, ["a:1", "a:2"]]);
    const live = batch.live();
    assert.deepEqual([live.kind, live.count], [OpKind.FETCH, 2]);
    const [op, other] = batch.takeAll(SENT) as [PooledOp, PooledOp];
    assert.deepEqual([op.kind, op.key, op.state, op.deadline, op.isRead], [OpKind.LOAD, "a:1", SENT, 500, true]);
    assert.deepEqual(batch.takeAll(SENT), [], "they are not waited for any more");
    op.settle("nothing was kept");
    const rows = new ReplyRows(Buffer.from("value"), { feeder: 0, healthy: true });
    rows.table = Int32Array.of(5, -6, 7, Kind.BULK, 0, 5);
    rows.at = 0;
    other.settle(other.shape.read(rows));
    assert.deepEqual(landed, [
      ["a:1", "nothing was kept", -1, 0, 0],
      ["a:2", "value", 5, -6, 7],
    ]);
    live.get(first, "a:3", waiter());
    assert.equal(live.kind, MIXED);
    assert.equal(new Batch().kind, EMPTY);
  });
});
