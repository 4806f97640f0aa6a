# What plots/panels.gp draws of cache; written by experiments/analyse.
kind = 'bars'
heading = 'Does a cache of results pay?'
load_text = 'N = 2 client threads, 100,000 keys, values of 1,000 bytes, GET only, zipfian 0.99, D = 4'
x_label = 'C, size of the cache, bytes'
base_text = 'C = none'
knob = 'cache'
x_is_series = 0
log_x = 0
runs = '4'
seconds = '5'
array series[4] = ['mmap', 'pread', 'mmap_batch', 'pread_batch']
series_count = 4
array series_label[4] = ['mapped files', 'system calls', 'mapped files, batches', 'system calls, batches']
series_label_count = 4
array value[4] = ['0', '1M', '8M', '64M']
value_count = 4
array value_label[4] = ['none', '1M', '8M', '64M']
value_label_count = 4
array tic_label[4] = ['none', '1M', '8M', '64M']
tic_label_count = 4
array bar_label[4] = ['mapped files', 'system calls', 'mapped files, batches', 'system calls, batches']
bar_label_count = 4
theory_label = ''
array published[1] = ['pread']
published_count = 1
array published_label[1] = ['system calls']
published_label_count = 1
array group[1] = ['']
group_count = 1
array series_group[4] = [1, 1, 1, 1]
array series_style[4] = [1, 2, 3, 4]
array published_group[1] = [1]
array panel_metric[4] = ['mean_us_ratio', 'server_cpu_us_per_op', 'hit_ratio', 'ops_per_s']
panel_metric_count = 4
array panel_second[4] = ['', '', '', '']
panel_second_count = 4
array panel_label[4] = ['mean response time, ratio to C = none', 'CPU of the daemon per operation, µs', 'hit ratio of the cache', 'throughput, requests/s']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [0, 0, 0, 0]
array panel_low[4] = [0, 0, 0, 0]
array panel_high[4] = [1.40995, 4.55397, 1.04855, 911881]
array panel_tics[4] = ['"0" 0, "0.2" 0.2, "0.4" 0.4, "0.6" 0.6, "0.8" 0.8, "1" 1, "1.2" 1.2, "1.4" 1.4', '"0" 0, "1" 1, "2" 2, "3" 3, "4" 4', '"0" 0, "0.2" 0.2, "0.4" 0.4, "0.6" 0.6, "0.8" 0.8, "1" 1', '"0" 0, "200k" 200000, "400k" 400000, "600k" 600000, "800k" 800000']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 0.2, "" 0.4, "" 0.6, "" 0.8, "" 1, "" 1.2, "" 1.4', '"" 0, "" 1, "" 2, "" 3, "" 4', '"" 0, "" 0.2, "" 0.4, "" 0.6, "" 0.8, "" 1', '"" 0, "" 200000, "" 400000, "" 600000, "" 800000']
panel_grid_count = 4
array panel_ratio[4] = [1, 0, 0, 0]
