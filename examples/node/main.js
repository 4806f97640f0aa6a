// Sessions, a rate limit and a cache, from Node with node-redis, its usual client of Redis. With a
// store and kresp running:
//
//     serverk -f data & kresp -s kresp.sock &
//     npm install && node main.js
import { createClient } from "redis";

const SESSION_S = 1800;
const CALLS_PER_MINUTE = 3;
const CACHE_S = 60;

const db = createClient({ socket: { path: process.env.KRESP_SOCKET ?? "kresp.sock" } });
db.on("error", (error) => console.error(error.message));

// The session, as it was stored; it lives on from now. null: there is none.
async function visit(session) {
  const text = await db.getEx(`session:${session}`, { EX: SESSION_S });
  return text === null ? null : JSON.parse(text);
}

// Counts a call of the user; the count ends a minute after its first call.
async function allowed(user) {
  const key = `calls:${user}`;
  const [count] = await db.multi().incr(key).expire(key, 60, "NX").exec();
  return count <= CALLS_PER_MINUTE;
}

// What compute gives, computed once a minute at most. Of several that find nothing at once, one
// computes; the others wait for what it stores.
async function cached(name, compute) {
  for (;;) {
    const text = await db.get(`cache:${name}`);
    if (text !== null) return JSON.parse(text);
    if (await db.set(`lock:${name}`, "1", { NX: true, PX: 5000 })) {
      const value = await compute();
      await db.set(`cache:${name}`, JSON.stringify(value), { EX: CACHE_S });
      await db.del(`lock:${name}`);
      return value;
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

await db.connect();

await db.set("session:7f3a", JSON.stringify({ user: "ada", theme: "dark" }), { EX: SESSION_S });
const { user, theme } = await visit("7f3a");
console.log(`the session belongs to ${user}, who likes it ${theme}`);
console.log("another session:", await visit("none"));

await db.del(`calls:${user}`);
for (let call = 1; call <= CALLS_PER_MINUTE + 1; call++)
  console.log(`call ${call} allowed: ${await allowed(user)}`);

await db.del("cache:report");
let computed = 0;
const report = async () => ({ number: ++computed });
const reports = await Promise.all(Array.from({ length: 20 }, () => cached("report", report)));
console.log(`${reports.length} readers, computed ${computed} time`);

const keys = new Set();
for await (const found of db.scanIterator({ MATCH: "session:*" }))
  for (const key of [found].flat()) keys.add(key);
console.log("sessions:", [...keys].join(" "));

await (db.close?.() ?? db.quit());
