import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/** Jedis and Lettuce do on kresp what programs do with them. Argument: the TCP port. */
public class Smoke {
    private static boolean failed;

    private static void check(boolean holds, String text) {
        failed |= !holds;
        System.out.println((holds ? "ok - " : "not ok - ") + text);
    }

    private static void jedis(int port, RedisProtocol protocol) {
        String name = "Jedis, " + protocol + ": ";
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).build();
        try (Jedis jedis = new Jedis(new HostAndPort("127.0.0.1", port), config)) {
            jedis.flushAll();
            check("OK".equals(jedis.set("a", "1", SetParams.setParams().ex(100).nx())) && "1".equals(jedis.get("a")),
                name + "set and get");
            check(jedis.set("a", "2", SetParams.setParams().nx()) == null && jedis.get("nothing") == null,
                name + "conditions, and what is absent");
            check(jedis.incrBy("a", 41) == 42 && jedis.ttl("a") > 0, name + "counters and expiry");
            Transaction transaction = jedis.multi();
            transaction.set("m", "5");
            transaction.incr("m");
            check(transaction.exec().equals(List.of("OK", 6L)), name + "a transaction");
            Pipeline pipeline = jedis.pipelined();
            List<Response<String>> replies = new ArrayList<>();
            for (int i = 0; i < 500; i++)
                replies.add(pipeline.set("n" + i, "" + i));
            pipeline.sync();
            check(replies.stream().allMatch(reply -> "OK".equals(reply.get())), name + "a pipeline");
            Set<String> found = new HashSet<>();
            String cursor = "0";
            do {
                ScanResult<String> page = jedis.scan(cursor, new ScanParams().match("n*").count(50));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!"0".equals(cursor));
            check(found.size() == 500, name + "SCAN");
            check(jedis.mget("n1", "none", "n2").size() == 3, name + "many keys");
            boolean unknown = false;
            try {
                jedis.lpush("l", "1");
            } catch (JedisDataException error) {
                unknown = error.getMessage().contains("unknown command");
            }
            check(unknown, name + "an unknown command");
        }
    }

    private static void lettuce(int port) {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + port);
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            RedisCommands<String, String> redis = connection.sync();
            redis.flushall();
            check("OK".equals(redis.set("a", "1", SetArgs.Builder.ex(100).nx())) && "1".equals(redis.get("a")),
                "Lettuce: set and get");
            check(redis.set("a", "2", SetArgs.Builder.nx()) == null && redis.get("nothing") == null,
                "Lettuce: conditions, and what is absent");
            check(redis.incrby("a", 41) == 42 && redis.ttl("a") > 0, "Lettuce: counters and expiry");
            redis.multi();
            redis.set("m", "5");
            redis.incr("m");
            TransactionResult result = redis.exec();
            check(!result.wasDiscarded() && Long.valueOf(6).equals(result.get(1)), "Lettuce: a transaction");
            List<RedisFuture<String>> replies = new ArrayList<>();
            for (int i = 0; i < 500; i++)
                replies.add(connection.async().set("n" + i, "" + i));
            check(LettuceFutures.awaitAll(20, TimeUnit.SECONDS, replies.toArray(new RedisFuture[0])),
                "Lettuce: a pipeline");
            Set<String> found = new HashSet<>();
            ScanIterator<String> scan = ScanIterator.scan(redis, ScanArgs.Builder.limit(50).match("n*"));
            scan.forEachRemaining(found::add);
            check(found.size() == 500, "Lettuce: SCAN");
            boolean unknown = false;
            try {
                redis.lpush("l", "1");
            } catch (RedisCommandExecutionException error) {
                unknown = error.getMessage().contains("unknown command");
            }
            check(unknown, "Lettuce: an unknown command");
        } finally {
            client.shutdown(0, 2, TimeUnit.SECONDS);
        }
    }

    public static void main(String[] arguments) {
        int port = Integer.parseInt(arguments[0]);
        jedis(port, RedisProtocol.RESP2);
        jedis(port, RedisProtocol.RESP3);
        lettuce(port);
        System.exit(failed ? 1 : 0);
    }
}
