module mqkv/examples/go

go 1.19

require github.com/redis/go-redis/v9 v9.7.0
