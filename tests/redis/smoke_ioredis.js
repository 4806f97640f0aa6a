// smoke_ioredis: ioredis does on kresp what programs do with it.
const Redis = require("ioredis");
const redis = new Redis({ path: process.env.KRESP_SOCKET });
let failed = 0;

function check(holds, text) {
  if (!holds) failed = 1;
  console.log(`${holds ? "ok" : "not ok"} - ioredis: ${text}`);
}

async function main() {
  await redis.flushall();
  check((await redis.set("a", "1", "EX", 100)) === "OK" && (await redis.get("a")) === "1", "set and get");
  check((await redis.incrby("a", 41)) === 42, "counters");
  const answers = await redis.multi().set("m", "x").get("m").incr("m").exec();
  check(answers[1][1] === "x" && answers[2][0] instanceof Error, "a transaction with an error in it");
  const pipeline = redis.pipeline();
  for (let i = 0; i < 500; i++) pipeline.set(`n${i}`, i);
  check((await pipeline.exec()).every(([error, reply]) => !error && reply === "OK"), "a pipeline");
  const found = new Set();
  for await (const keys of redis.scanStream({ match: "n*", count: 50 })) keys.forEach((key) => found.add(key));
  check(found.size === 500, "SCAN");
  check((await redis.getBuffer("a")).equals(Buffer.from("42")), "bytes");
  const subscriber = redis.duplicate();
  await subscriber.subscribe("c");
  await subscriber.psubscribe("p*");
  const heard = [];
  const done = new Promise((resolve) => subscriber.on("pmessage", (pattern, channel, text) => resolve(heard.push(text))));
  subscriber.on("message", (channel, text) => heard.push(text));
  const counts = [await redis.publish("c", "1"), await redis.publish("pc", "2")];
  await done;
  check(counts.join() === "1,1" && heard.join() === "1,2", "a subscriber");
  await subscriber.quit();
  check(await redis.lpush("l", 1).then(() => false, (error) => /unknown command/.test(error.message)), "an unknown command");
  await redis.quit();
}

main().catch((error) => check(false, error.stack)).finally(() => process.exit(failed));
