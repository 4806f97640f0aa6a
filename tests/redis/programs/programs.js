// Programs and libraries of Node.js that use Redis, each doing on kresp what its users do with it.
//
//     node programs.js list      their names, with what npm installs for each
//     node programs.js NAME      runs one; the last line of a failure is the reason
'use strict';
const assert = require('node:assert');
const path = process.env.KRESP_SOCKET;
const port = Number(process.env.KRESP_PORT || 0);
const url = `redis://127.0.0.1:${port}`;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function ioredis() {
  const Redis = require('ioredis');
  const client = new Redis({path, maxRetriesPerRequest: null, retryStrategy: () => null});
  return client;
}

async function nodeRedis() {
  const client = require('redis').createClient({socket: {path, reconnectStrategy: false}});
  client.on('error', () => {});
  return client.connect();
}

async function limits(limiter) {
  for (let i = 0; i < 3; i++) await limiter.consume('ada');
  await assert.rejects(limiter.consume('ada'), (no) => no.remainingPoints === 0);
}

const programs = {
  'ioredis': ['ioredis', async () => {
    const client = ioredis();
    assert.equal(await client.set('k', 'v', 'EX', 60), 'OK');
    assert.equal(await client.get('k'), 'v');
    assert.deepEqual(await client.multi().incr('n').get('n').exec(), [[null, 1], [null, '1']]);
    client.defineCommand('mine', {numberOfKeys: 1, lua: 'return redis.call("get", KEYS[1])'});
    assert.equal(await client.mine('k'), 'v');
    const subscriber = ioredis();
    await subscriber.subscribe('c');
    const heard = new Promise((resolve) => subscriber.on('message', (_, text) => resolve(text)));
    await client.publish('c', 'hello');
    assert.equal(await heard, 'hello');
  }],
  'node-redis': ['redis', async () => {
    const client = await nodeRedis();
    assert.equal(await client.set('k', 'v', {EX: 60}), 'OK');
    assert.equal(await client.get('k'), 'v');
    assert.deepEqual(await client.multi().incr('n').get('n').exec(), [1, '1']);
    const subscriber = await nodeRedis();
    const heard = new Promise((resolve) => subscriber.subscribe('c', resolve).then(
      () => client.publish('c', 'hello')));
    assert.equal(await heard, 'hello');
  }],
  'node-redis: clientSideCache': ['redis', async () => {
    const {BasicClientSideCache, createClient} = require('redis');
    const cache = new BasicClientSideCache();
    const client = createClient({socket: {path, reconnectStrategy: false}, clientSideCache: cache});
    client.on('error', () => {});
    await client.connect();
    const other = await nodeRedis();
    await other.set('k', 'old');
    while (cache.stats().hitCount === 0) assert.equal(await client.get('k'), 'old');
    await other.set('k', 'new');
    while (await client.get('k') !== 'new') await new Promise((resolve) => setTimeout(resolve, 1));
  }],
  'connect-redis (express-session)': ['connect-redis redis express-session', async () => {
    const {RedisStore} = require('connect-redis');
    const store = new RedisStore({client: await nodeRedis(), ttl: 60});
    await store.set('id', {cookie: {}, user: 'ada'});
    assert.equal((await store.get('id')).user, 'ada');
    await store.touch('id', {cookie: {}});
    assert.deepEqual(await store.ids(), ['id']);
    await store.destroy('id');
    assert.equal(await store.length(), 0);
  }],
  'rate-limit-redis (express-rate-limit)': ['rate-limit-redis redis', async () => {
    const {RedisStore} = require('rate-limit-redis');
    const client = await nodeRedis();
    const store = new RedisStore({sendCommand: (...words) => client.sendCommand(words)});
    await store.init({windowMs: 60000});
    assert.equal((await store.increment('ada')).totalHits, 1);
    assert.equal((await store.increment('ada')).totalHits, 2);
    await store.resetKey('ada');
    assert.equal((await store.increment('ada')).totalHits, 1);
  }],
  'rate-limiter-flexible': ['rate-limiter-flexible ioredis', async () => {
    const {RateLimiterRedis} = require('rate-limiter-flexible');
    await limits(new RateLimiterRedis({storeClient: ioredis(), points: 3, duration: 60}));
  }],
  '@keyv/redis (keyv, cache-manager)': ['keyv @keyv/redis cache-manager', async () => {
    const {Keyv} = require('keyv');
    const KeyvRedis = require('@keyv/redis').default;
    const keyv = new Keyv(new KeyvRedis(url), {namespace: 'n'});
    await keyv.set('a', {b: 1}, 60000);
    assert.deepEqual(await keyv.get('a'), {b: 1});
    const {createCache} = require('cache-manager');
    const cache = createCache({stores: [keyv]});
    let calls = 0;
    for (let i = 0; i < 2; i++) assert.equal(await cache.wrap('w', async () => ++calls, 60000), 1);
    await keyv.delete('a');
    await keyv.clear();
  }],
  'redlock': ['redlock ioredis', async () => {
    const module = require('redlock');
    const Redlock = module.default || module;
    const redlock = new Redlock([ioredis()], {retryCount: 0});
    const take = (redlock.acquire || redlock.lock).bind(redlock, ['lock'], 5000);
    const lock = await take();
    await assert.rejects(take());
    await (lock.release || lock.unlock).call(lock);
    await take();
  }],
  'socket.io: Redis adapter': ['socket.io @socket.io/redis-adapter redis', async () => {
    const {Server} = require('socket.io');
    const {createAdapter} = require('@socket.io/redis-adapter');
    const servers = [];
    for (let i = 0; i < 2; i++)
      servers.push(new Server({adapter: createAdapter(await nodeRedis(), await nodeRedis())}));
    const heard = new Promise((resolve) => servers[1].on('hello', resolve));
    await sleep(300);
    servers[0].serverSideEmit('hello', 'world');
    assert.equal(await heard, 'world');
  }],
  'BullMQ': ['bullmq', async () => {
    const {Queue} = require('bullmq');
    const queue = new Queue('jobs', {connection: {path, retryStrategy: () => null}});
    queue.on('error', () => {});
    await queue.add('job', {a: 1});
  }],
  'Bull': ['bull', async () => {
    const Queue = require('bull');
    const queue = new Queue('jobs', {redis: {path, retryStrategy: () => null}});
    await queue.add({a: 1});
  }],
  'Bee-Queue': ['bee-queue', async () => {
    const Queue = require('bee-queue');
    const queue = new Queue('jobs', {redis: {path}, isWorker: false, getEvents: false});
    await queue.createJob({a: 1}).save();
  }],
};

async function main(name) {
  if (name === 'list') {
    for (const [of, [packages]] of Object.entries(programs)) console.log(`${of}\t${packages}`);
    return 0;
  }
  await programs[name][1]();
  return 0;
}

function fail(error) {
  console.error(String(error).split('\n')[0]);
  process.exit(1);
}
process.on('unhandledRejection', fail);
main(process.argv[2]).then((status) => process.exit(status), fail);
