# What plots/panels.gp draws of threads; written by experiments/analyse.
kind = 'bars'
heading = 'A process, a thread, or a pool of threads for requests? (16 CPUs)'
load_text = 'N = 20 clients with a session each, GET of 64 bytes from 10,000 keys, D = 4 data files'
x_label = 'a process or thread per request, or number of threads in the pool'
base_text = 'start = process'
knob = 'start'
x_is_series = 0
log_x = 0
runs = '5'
seconds = '0.3'
array series[1] = ['gets']
series_count = 1
array series_label[1] = ['20 clients that read']
series_label_count = 1
array value[8] = ['process', 'thread', 'pool-1', 'pool-2', 'pool-5', 'pool-10', 'pool-20', 'pool-50']
value_count = 8
array value_label[8] = ['process', 'thread', '1', '2', '5', '10', '20', '50']
value_label_count = 8
array tic_label[8] = ['process', 'thread', '1', '2', '5', '10', '20', '50']
tic_label_count = 8
array bar_label[1] = ['20 clients that read']
bar_label_count = 1
theory_label = ''
array published[1] = ['gets']
published_count = 1
array published_label[1] = ['20 clients that read']
published_label_count = 1
array group[1] = ['']
group_count = 1
array series_group[1] = [1]
array series_style[1] = [1]
array published_group[1] = [1]
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'server_cpu_us_per_op', 'server_switches_per_op']
panel_metric_count = 4
array panel_second[4] = ['', '', '', '']
panel_second_count = 4
array panel_label[4] = ['throughput, requests/s', 'throughput, ratio to start = process', 'CPU of the daemon per operation, µs', 'context switches of the daemon per operation']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [1, 0, 1, 0]
array panel_low[4] = [1000, 0, 2, 0]
array panel_high[4] = [1.22133e+06, 468.886, 2470.88, 3.51026]
array panel_tics[4] = ['"1000" 1000, "2000" 2000, "5000" 5000, "10k" 10000, "20k" 20000, "50k" 50000, "100k" 100000, "200k" 200000, "500k" 500000, "1M" 1e+06', '"0" 0, "100" 100, "200" 200, "300" 300, "400" 400', '"2" 2, "5" 5, "10" 10, "20" 20, "50" 50, "100" 100, "200" 200, "500" 500, "1000" 1000, "2000" 2000', '"0" 0, "0.5" 0.5, "1" 1, "1.5" 1.5, "2" 2, "2.5" 2.5, "3" 3, "3.5" 3.5']
panel_tics_count = 4
array panel_grid[4] = ['"" 1000, "" 2000, "" 5000, "" 10000, "" 20000, "" 50000, "" 100000, "" 200000, "" 500000, "" 1e+06', '"" 0, "" 100, "" 200, "" 300, "" 400', '"" 2, "" 5, "" 10, "" 20, "" 50, "" 100, "" 200, "" 500, "" 1000, "" 2000', '"" 0, "" 0.5, "" 1, "" 1.5, "" 2, "" 2.5, "" 3, "" 3.5']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 0]
