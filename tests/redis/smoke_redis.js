// smoke_redis: node-redis does on kresp what programs do with it.
const { createClient } = require("redis");
let failed = 0;

function check(holds, text) {
  if (!holds) failed = 1;
  console.log(`${holds ? "ok" : "not ok"} - node-redis: ${text}`);
}

async function main() {
  const client = createClient({ socket: { path: process.env.KRESP_SOCKET } });
  await client.connect();
  await client.flushAll();
  check((await client.set("a", "1", { EX: 100 })) === "OK" && (await client.get("a")) === "1", "set and get");
  check((await client.incrBy("a", 41)) === 42, "counters");
  const answers = await client.multi().set("m", "5").incr("m").get("m").exec();
  check(answers.length === 3 && answers[2] === "6", "a transaction");
  check((await Promise.all([...Array(500).keys()].map((i) => client.set(`n${i}`, `${i}`)))).length === 500, "a pipeline");
  let count = 0;
  for await (const keys of client.scanIterator({ MATCH: "n*", COUNT: 50 })) count += Array.isArray(keys) ? keys.length : 1;
  check(count === 500, "SCAN");
  check(await client.lPush("l", "1").then(() => false, (error) => /unknown command/.test(error.message)), "an unknown command");
  await (client.close ? client.close() : client.quit());
}

main().catch((error) => check(false, error.stack)).finally(() => process.exit(failed));
