# Redis.pm on kresp, doing what its users do with it: programs.pl list, or programs.pl NAME.
use strict;
use warnings;
if ($ARGV[0] eq 'list') { print "Redis.pm\n"; exit 0 }
require Redis;
my $redis = Redis->new(sock => $ENV{KRESP_SOCKET});
$redis->set(k => 'v', 'EX', 60);
die "GET\n" unless $redis->get('k') eq 'v';
$redis->multi;
$redis->incr('n');
die "EXEC\n" unless ($redis->exec)[0] == 1;
my $heard;
my $listener = Redis->new(sock => $ENV{KRESP_SOCKET});
$listener->subscribe('c', sub { $heard = $_[0] });
$redis->publish('c', 'hello');
$listener->wait_for_messages(1) until $heard;
