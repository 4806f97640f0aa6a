# Programs and libraries of Ruby that use Redis, each doing on kresp what its users do with it:
# programs.rb list, or programs.rb NAME.
SOCKET = ENV['KRESP_SOCKET']

def check(holds, what)
  raise what unless holds
end

PROGRAMS = {
  'redis-rb' => lambda do
    require 'redis'
    redis = Redis.new(path: SOCKET)
    check(redis.set('k', 'v', ex: 60, nx: true) && redis.get('k') == 'v', 'SET, GET')
    check(redis.multi { |t| t.incr('n'); t.get('n') } == [1, '1'], 'MULTI')
    check(redis.eval('return redis.call("get", KEYS[1])', keys: ['k']) == 'v', 'EVAL')
    Redis.new(path: SOCKET).subscribe_with_timeout(10, 'c') do |on|
      on.subscribe { redis.publish('c', 'hello') }
      on.message { |_, text| exit(text == 'hello' ? 0 : 1) }
    end
  end,
  'Sidekiq' => lambda do
    require 'sidekiq'
    Sidekiq.configure_client { |config| config.redis = { path: SOCKET } }
    Sidekiq::Client.push('class' => 'Work', 'args' => [1])
  end
}.freeze

if ARGV[0] == 'list'
  puts PROGRAMS.keys
else
  begin
    PROGRAMS[ARGV[0]].call
  rescue StandardError => e
    warn e.message.lines.first
    exit 1
  end
end
