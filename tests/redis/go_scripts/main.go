// Programs of Redis that lock and limit by scripts, on kresp: redsync, redislock and redis_rate work as they come.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var failed bool

func check(holds bool, text string, seen ...any) {
	if holds {
		fmt.Println("ok -", text)
		return
	}
	failed = true
	fmt.Println("not ok -", text, seen)
}

func checkRedsync(ctx context.Context, client *redis.Client) {
	locks := redsync.New(goredis.NewPool(client))
	sum, workers := 0, sync.WaitGroup{}
	for i := 0; i < 8; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			mutex := locks.NewMutex("redsync", redsync.WithTries(1000),
				redsync.WithRetryDelay(5*time.Millisecond))
			for j := 0; j < 5; j++ {
				if err := mutex.LockContext(ctx); err != nil {
					check(false, "redsync locks", err)
					return
				}
				before := sum
				time.Sleep(time.Millisecond)
				sum = before + 1
				if ok, err := mutex.UnlockContext(ctx); !ok {
					check(false, "redsync unlocks", err)
				}
			}
		}()
	}
	workers.Wait()
	check(sum == 40, "redsync: a mutex lets one in at a time", sum)
	mutex := locks.NewMutex("extended", redsync.WithExpiry(time.Second))
	check(mutex.Lock() == nil, "redsync: locks")
	extended, err := mutex.Extend()
	check(extended && err == nil, "redsync: extends a lock", err)
	other := locks.NewMutex("extended", redsync.WithTries(1))
	var taken *redsync.ErrTaken
	check(errors.As(other.Lock(), &taken), "redsync: one that is taken is not had")
	unlocked, err := mutex.Unlock()
	check(unlocked && err == nil, "redsync: unlocks", err)
}

func checkRedislock(ctx context.Context, client *redis.Client) {
	locker := redislock.New(client)
	lock, err := locker.Obtain(ctx, "redislock", time.Second, nil)
	check(err == nil, "redislock: obtains a lock", err)
	_, err = locker.Obtain(ctx, "redislock", time.Second, nil)
	check(errors.Is(err, redislock.ErrNotObtained), "redislock: not twice", err)
	ttl, err := lock.TTL(ctx)
	check(err == nil && ttl > 0 && ttl <= time.Second, "redislock: tells what time is left", ttl)
	check(lock.Refresh(ctx, time.Minute, nil) == nil, "redislock: refreshes it")
	ttl, _ = lock.TTL(ctx)
	check(ttl > time.Second, "redislock: which then has more", ttl)
	check(lock.Release(ctx) == nil, "redislock: releases it")
	check(errors.Is(lock.Release(ctx), redislock.ErrLockNotHeld), "redislock: once")
}

func checkRedisRate(ctx context.Context, client *redis.Client) {
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.PerHour(3)
	for i := 0; i < 3; i++ {
		result, err := limiter.Allow(ctx, "rate", limit)
		check(err == nil && result.Allowed == 1 && result.Remaining == 2-i,
			"redis_rate: allows a request", result, err)
	}
	result, err := limiter.Allow(ctx, "rate", limit)
	check(err == nil && result.Allowed == 0 && result.RetryAfter > 0,
		"redis_rate: but not the fourth", result, err)
	result, err = limiter.AllowAtMost(ctx, "most", limit, 5)
	check(err == nil && result.Allowed == 3, "redis_rate: allows at most what there is", result, err)
	check(limiter.Reset(ctx, "rate") == nil, "redis_rate: begins anew")
	result, err = limiter.Allow(ctx, "rate", limit)
	check(err == nil && result.Allowed == 1, "redis_rate: and allows again", result, err)
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Getenv("KRESP_SOCKET")})
	client.FlushDB(ctx)
	checkRedsync(ctx, client)
	checkRedislock(ctx, client)
	checkRedisRate(ctx, client)
	if failed {
		os.Exit(1)
	}
}
