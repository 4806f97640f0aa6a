<?php
// Programs and libraries of PHP that use Redis, each doing on kresp what its users do with it:
// programs.php list, or programs.php NAME.
$socket = getenv('KRESP_SOCKET');

function check($holds, $what) {
    if (!$holds) {
        throw new Exception($what);
    }
}

$programs = [
    'phpredis' => function () use ($socket) {
        $redis = new Redis();
        $redis->connect($socket);
        check($redis->set('k', 'v', ['nx', 'ex' => 60]) && $redis->get('k') === 'v', 'SET, GET');
        check($redis->multi()->incr('n')->get('n')->exec() == [1, '1'], 'MULTI');
        check($redis->eval('return redis.call("get", KEYS[1])', ['k'], 1) === 'v', 'EVAL');
        check($redis->mget(['k', 'none']) === ['v', false], 'MGET');
    },
    'phpredis: sessions' => function () use ($socket) {
        ini_set('session.save_handler', 'redis');
        ini_set('session.save_path', "unix://$socket?prefix=session:");
        ini_set('redis.session.locking_enabled', 1);
        session_id('ada');
        check(session_start(), 'a session');
        $_SESSION['user'] = 'ada';
        session_write_close();
        $_SESSION = [];
        check(session_start() && $_SESSION['user'] === 'ada', 'the session comes back');
        session_write_close();
    },
    'Predis' => function () use ($socket) {
        require 'Predis/autoload.php';
        $redis = new Predis\Client(['scheme' => 'unix', 'path' => $socket]);
        $redis->set('k', 'v', 'EX', 60);
        check($redis->get('k') === 'v', 'SET, GET');
        $answers = $redis->transaction(function ($t) {
            $t->incr('n');
            $t->get('n');
        });
        check($answers == [1, '1'], 'MULTI');
    },
];
if ($argv[1] === 'list') {
    echo implode("\n", array_keys($programs)), "\n";
    exit(0);
}
try {
    ob_start();
    $programs[$argv[1]]();
} catch (Throwable $error) {
    fwrite(STDERR, strtok($error->getMessage(), "\n") . "\n");
    exit(1);
}
