// go_redis: go-redis does on kresp what programs do with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var failed bool

func check(holds bool, text string) {
	word := "ok"
	if !holds {
		word, failed = "not ok", true
	}
	fmt.Println(word, "- go-redis:", text)
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Getenv("KRESP_SOCKET")})
	defer client.Close()
	check(client.FlushAll(ctx).Err() == nil, "flush")
	check(client.Set(ctx, "a", "1", time.Minute).Err() == nil && client.Get(ctx, "a").Val() == "1", "set and get")
	check(client.IncrBy(ctx, "a", 41).Val() == 42, "counters")
	check(errors.Is(client.Get(ctx, "nothing").Err(), redis.Nil), "what is absent")
	replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "m", "5", 0)
		pipe.Incr(ctx, "m")
		return nil
	})
	check(err == nil && len(replies) == 2, "a transaction")
	_, err = client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := 0; i < 500; i++ {
			pipe.Set(ctx, fmt.Sprintf("n%d", i), i, 0)
		}
		return nil
	})
	check(err == nil, "a pipeline")
	count := 0
	for iter := client.Scan(ctx, 0, "n*", 50).Iterator(); iter.Next(ctx); {
		count++
	}
	check(count == 500, "SCAN")
	err = client.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "w", "1", 0)
			return nil
		})
		return err
	}, "w")
	check(err == nil && client.Get(ctx, "w").Val() == "1", "WATCH")
	check(client.LPush(ctx, "l", 1).Err() != nil, "an unknown command")
	if failed {
		os.Exit(1)
	}
}
