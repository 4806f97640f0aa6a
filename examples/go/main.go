// Sessions, a rate limit and an account, from Go with go-redis, its usual client of Redis. With a
// store and kresp running:
//
//	serverk -f data & kresp -s kresp.sock &
//	go mod tidy && go run .
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sessionTime     = 30 * time.Minute
	callsPerMinute  = 3
	transferRetries = 100
)

// visit gives the session's user and lets the session live on from now.
func visit(ctx context.Context, db *redis.Client, session string) (string, error) {
	user, err := db.GetEx(ctx, "session:"+session, sessionTime).Result()
	if errors.Is(err, redis.Nil) {
		return "", errors.New("no such session")
	}
	return user, err
}

// allowed counts a call of the user; the count ends a minute after its first call.
func allowed(ctx context.Context, db *redis.Client, user string) (bool, error) {
	var count *redis.IntCmd
	_, err := db.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		count = pipe.Incr(ctx, "calls:"+user)
		pipe.ExpireNX(ctx, "calls:"+user, time.Minute)
		return nil
	})
	if err != nil {
		return false, err
	}
	return count.Val() <= callsPerMinute, nil
}

// withdraw takes from an account only what is there: if somebody else writes it meanwhile, the
// transaction does nothing and is tried again.
func withdraw(ctx context.Context, db *redis.Client, account string, amount int) error {
	once := func(tx *redis.Tx) error {
		balance, err := tx.Get(ctx, account).Int()
		if err != nil {
			return err
		}
		if balance < amount {
			return fmt.Errorf("only %d left", balance)
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, account, strconv.Itoa(balance-amount), 0)
			return nil
		})
		return err
	}
	for i := 0; i < transferRetries; i++ {
		if err := db.Watch(ctx, once, account); !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
	return errors.New("the account is written too often by others")
}

func main() {
	socket := os.Getenv("KRESP_SOCKET")
	if socket == "" {
		socket = "kresp.sock"
	}
	ctx := context.Background()
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer db.Close()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}

	must(db.Set(ctx, "session:7f3a", "ada", sessionTime).Err())
	user, err := visit(ctx, db, "7f3a")
	must(err)
	fmt.Println("the session belongs to", user)

	must(db.Del(ctx, "calls:"+user).Err())
	for call := 1; call <= callsPerMinute+1; call++ {
		ok, err := allowed(ctx, db, user)
		must(err)
		fmt.Printf("call %d allowed: %t\n", call, ok)
	}

	must(db.Set(ctx, "account:ada", "100", 0).Err())
	done := make(chan error)
	for i := 0; i < 10; i++ {
		go func() { done <- withdraw(ctx, db, "account:ada", 10) }()
	}
	for i := 0; i < 10; i++ {
		must(<-done)
	}
	fmt.Println("after ten at once:", db.Get(ctx, "account:ada").Val())
	fmt.Println("one more:", withdraw(ctx, db, "account:ada", 10))
}
