// smoke_scripts: programs of Redis that limit and lock by scripts work on kresp as they come:
// rate-limiter-flexible, rate-limit-redis and redlock.
const Redis = require("ioredis");
const { RateLimiterRedis } = require("rate-limiter-flexible");
const { RedisStore } = require("rate-limit-redis");
const Redlock = require("redlock");
const redis = new Redis({ path: process.env.KRESP_SOCKET });
let failed = 0;

function check(holds, text, seen) {
  if (!holds) failed = 1;
  console.log(`${holds ? "ok" : "not ok"} - ${text}${holds ? "" : ` ${JSON.stringify(seen)}`}`);
}

async function checkFlexible() {
  const limiter = new RateLimiterRedis({ storeClient: redis, points: 3, duration: 60, blockDuration: 60 });
  const left = [];
  for (let i = 0; i < 3; i++) left.push((await limiter.consume("user")).remainingPoints);
  check(left.join() === "2,1,0", "rate-limiter-flexible: counts what is left", left);
  const refused = await limiter.consume("user").then(() => null, (result) => result);
  check(refused && refused.msBeforeNext > 0 && !(refused instanceof Error), "rate-limiter-flexible: refuses the fourth", refused);
  check((await limiter.get("user")).consumedPoints > 3, "rate-limiter-flexible: tells what was consumed");
  check(await limiter.delete("user"), "rate-limiter-flexible: forgets a user");
  check((await limiter.consume("user", 2)).remainingPoints === 1, "rate-limiter-flexible: and counts anew");
}

async function checkStore() {
  const store = new RedisStore({ sendCommand: (...words) => redis.call(...words) });
  await store.init({ windowMs: 60000 });
  const first = await store.increment("user"), second = await store.increment("user");
  check(first.totalHits === 1 && second.totalHits === 2, "rate-limit-redis: counts", second);
  const left = second.resetTime - Date.now();
  check(left > 0 && left <= 60000, "rate-limit-redis: tells when a window ends", left);
  await store.decrement("user");
  check((await store.get("user")).totalHits === 1, "rate-limit-redis: counts back");
  await store.resetKey("user");
  check((await store.increment("user")).totalHits === 1, "rate-limit-redis: and begins anew");
}

async function checkRedlock() {
  const locks = new Redlock([redis], { retryCount: 0 });
  const lock = await locks.lock(["one", "two"], 1000);
  const refused = await locks.lock("two", 1000).then(() => null, (error) => error);
  check(refused && refused.name === "LockError", "redlock: nobody else has a lock that is held", refused);
  const longer = await lock.extend(60000);
  check((await redis.pttl("one")) > 1000, "redlock: extends it");
  await longer.unlock();
  check((await redis.exists("one", "two")) === 0, "redlock: and releases it");
}

async function main() {
  await redis.flushall();
  await checkFlexible();
  await checkStore();
  await checkRedlock();
  await redis.quit();
}

main().catch((error) => check(false, error.stack)).finally(() => process.exit(failed));
