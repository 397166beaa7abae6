/** CLUSTER NODES as several server versions write it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseNodes } from "keylane/sandbox";

const TEXT = [
  "aaa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460 [93-<-bbb] 16000",
  "bbb ::1:7001@17001,node-1.example master - 0 1426238316232 2 connected",
  "ccc 127.0.0.1:7002@17002,,tls-port=0,shard-id=69bc slave,fail? aaa 5 6 1 disconnected",
  "ddd :0@0 master,noaddr - 0 0 0 disconnected",
  "",
].join("\n");

test("ids, addresses, flags, links and slots", () => {
  const [own, ipv6, replica, lost] = parseNodes(TEXT);
  assert.deepEqual(own, {
    id: "aaa",
    host: "127.0.0.1",
    port: 7000,
    flags: ["myself", "master"],
    primaryId: undefined,
    linked: true,
    epoch: 1,
    slots: [
      [0, 5460],
      [16_000, 16_000],
    ],
  });
  assert.deepEqual([ipv6!.host, ipv6!.port, ipv6!.slots], ["::1", 7001, []]);
  assert.deepEqual([replica!.primaryId, replica!.flags, replica!.linked], ["aaa", ["slave", "fail?"], false]);
  assert.deepEqual([replica!.host, replica!.port], ["127.0.0.1", 7002]);
  assert.deepEqual([lost!.host, lost!.port, lost!.flags], ["", 0, ["master", "noaddr"]]);
});
