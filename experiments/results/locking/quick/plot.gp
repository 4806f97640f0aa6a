# What plots/panels.gp draws of locking; written by experiments/analyse.
kind = 'bars'
heading = 'One lock or many, mutex or reader-writer lock?'
load_text = 'N = 48 client threads in 6 processes, each with a session of its own, 50 % GET, 50 % PUT at random, L = 64 bytes, M = 4 workers'
x_label = ''
base_text = 'one mutex'
knob = 'datafiles'
x_is_series = 1
log_x = 0
runs = '5'
seconds = '0.3'
array series[5] = ['global-mutex', 'file-mutex', 'global-rwlock', 'file-rwlock', 'optimistic']
series_count = 5
array series_label[5] = ['one mutex', 'a mutex a file', 'one reader-writer lock', 'a reader-writer lock a file', 'optimistic readers']
series_label_count = 5
array value[3] = ['10', '100', '1000']
value_count = 3
array value_label[3] = ['10', '100', '1000']
value_label_count = 3
array tic_label[5] = ['one mutex', 'a mutex a file', 'one'."\n".'reader-writer'."\n".'lock', 'a'."\n".'reader-writer'."\n".'lock a file', 'optimistic'."\n".'readers']
tic_label_count = 5
array bar_label[3] = ['n = 10', 'n = 100', 'n = 1000']
bar_label_count = 3
array published[4] = ['global-mutex', 'file-mutex', 'global-rwlock', 'file-rwlock']
published_count = 4
array panel_metric[4] = ['access_us', 'access_us_ratio', 'access_p50_us', 'lock_memory_kib']
panel_metric_count = 4
array panel_second[4] = ['', '', '', '']
panel_second_count = 4
array panel_label[4] = ['mean access latency, µs', 'mean access latency, ratio to one mutex', 'median access latency, µs', 'memory of the locks, KiB']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [0, 1, 0, 1]
array panel_low[4] = [0, 0.01, 0, 0.05]
array panel_high[4] = [15.8785, 6.36961, 4.19145, 151.3]
array panel_ratio[4] = [0, 1, 0, 0]
