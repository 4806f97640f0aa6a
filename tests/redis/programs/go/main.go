// Programs and libraries of Go that use Redis, each doing on kresp what its users do with it.
//
//	programs list    their names
//	programs NAME    runs one; the last line of a failure is the reason
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-redis/cache/v9"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/gomodule/redigo/redis"
	"github.com/hibiken/asynq"
	goredis9 "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/ulule/limiter/v3"
	limiterstore "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/valkey-io/valkey-go"
)

var (
	ctx    = context.Background()
	socket = os.Getenv("KRESP_SOCKET")
)

func client() *goredis9.Client {
	return goredis9.NewClient(&goredis9.Options{Network: "unix", Addr: socket})
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

func check(holds bool, what string) {
	if !holds {
		must(errors.New(what))
	}
}

func goRedis() {
	rdb := client()
	must(rdb.Set(ctx, "k", "v", time.Minute).Err())
	check(rdb.Get(ctx, "k").Val() == "v", "GET")
	must(rdb.Watch(ctx, func(tx *goredis9.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe goredis9.Pipeliner) error {
			pipe.Incr(ctx, "n")
			return nil
		})
		return err
	}, "n"))
	script := goredis9.NewScript("return redis.call('get', KEYS[1])")
	check(script.Run(ctx, rdb, []string{"n"}).Val() == "1", "a script")
	heard := rdb.Subscribe(ctx, "c")
	_, err := heard.Receive(ctx)
	must(err)
	must(rdb.Publish(ctx, "c", "hello").Err())
	message, err := heard.ReceiveMessage(ctx)
	must(err)
	check(message.Payload == "hello", "a message")
}

func redigo() {
	conn, err := redis.Dial("unix", socket)
	must(err)
	_, err = conn.Do("SET", "k", "v", "EX", 60)
	must(err)
	value, err := redis.String(conn.Do("GET", "k"))
	must(err)
	check(value == "v", "GET")
	must(conn.Send("MULTI"))
	must(conn.Send("INCR", "n"))
	values, err := redis.Ints(conn.Do("EXEC"))
	must(err)
	check(len(values) == 1 && values[0] == 1, "EXEC")
}

func rueidisClient(disableCache bool) rueidis.Client {
	r, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{"127.0.0.1:" + os.Getenv("KRESP_PORT")},
		DisableCache: disableCache,
	})
	must(err)
	return r
}

func rueidisCaching() {
	r, other := rueidisClient(false), client()
	must(other.Set(ctx, "k", "old", 0).Err())
	for hit := false; !hit; {
		result := r.DoCache(ctx, r.B().Get().Key("k").Cache(), time.Minute)
		value, err := result.ToString()
		must(err)
		check(value == "old", "GET")
		hit = result.IsCacheHit()
	}
	must(other.Set(ctx, "k", "new", 0).Err())
	for value, err := "", error(nil); value != "new"; must(err) {
		value, err = r.DoCache(ctx, r.B().Get().Key("k").Cache(), time.Minute).ToString()
	}
}

func valkeyCaching() {
	v, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{"127.0.0.1:" + os.Getenv("KRESP_PORT")},
	})
	must(err)
	other := client()
	must(other.Set(ctx, "k", "old", 0).Err())
	for hit := false; !hit; {
		result := v.DoCache(ctx, v.B().Get().Key("k").Cache(), time.Minute)
		must(result.Error())
		hit = result.IsCacheHit()
	}
	must(other.Set(ctx, "k", "new", 0).Err())
	for value, err := "", error(nil); value != "new"; must(err) {
		value, err = v.DoCache(ctx, v.B().Get().Key("k").Cache(), time.Minute).ToString()
	}
}

func rueidisPlain() {
	r := rueidisClient(true)
	must(r.Do(ctx, r.B().Set().Key("k").Value("v").Build()).Error())
	value, err := r.Do(ctx, r.B().Get().Key("k").Build()).ToString()
	must(err)
	check(value == "v", "GET")
}

func redsyncLocks() {
	locks := redsync.New(goredis.NewPool(client()))
	mutex := locks.NewMutex("lock")
	must(mutex.Lock())
	check(locks.NewMutex("lock", redsync.WithTries(1)).Lock() != nil, "two have the lock")
	_, err := mutex.Extend()
	must(err)
	_, err = mutex.Unlock()
	must(err)
}

func redisRate() {
	limits := redis_rate.NewLimiter(client())
	for i := 0; i < 4; i++ {
		result, err := limits.Allow(ctx, "ada", redis_rate.PerHour(3))
		must(err)
		check(result.Allowed == 1 == (i < 3), "the limit")
	}
}

func goRedisCache() {
	values := cache.New(&cache.Options{Redis: client()})
	calls, value := 0, ""
	make := func(*cache.Item) (any, error) {
		calls++
		return "made", nil
	}
	for i := 0; i < 2; i++ {
		must(values.Once(&cache.Item{Key: "k", Value: &value, TTL: time.Minute, Do: make}))
	}
	check(calls == 1 && value == "made", "once")
}

func ululeLimiter() {
	store, err := limiterstore.NewStore(client())
	must(err)
	limits := limiter.New(store, limiter.Rate{Period: time.Hour, Limit: 3})
	for i := 0; i < 4; i++ {
		state, err := limits.Get(ctx, "ada")
		must(err)
		check(state.Reached == (i == 3), "the limit")
	}
}

func asynqQueue() {
	queue := asynq.NewClient(asynq.RedisClientOpt{Network: "unix", Addr: socket})
	_, err := queue.Enqueue(asynq.NewTask("work", nil))
	must(err)
}

var programs = []struct {
	name string
	run  func()
}{
	{"go-redis", goRedis},
	{"redigo", redigo},
	{"rueidis: DisableCache", rueidisPlain},
	{"rueidis: client-side caching", rueidisCaching},
	{"valkey-go: client-side caching", valkeyCaching},
	{"redsync", redsyncLocks},
	{"redis_rate", redisRate},
	{"go-redis/cache", goRedisCache},
	{"ulule/limiter", ululeLimiter},
	{"asynq", asynqQueue},
}

func main() {
	for _, program := range programs {
		if os.Args[1] == "list" {
			fmt.Println(program.name)
		} else if os.Args[1] == program.name {
			program.run()
			os.Exit(0)
		}
	}
}
