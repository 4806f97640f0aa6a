# What plots/panels.gp draws of scale-workers; written by experiments/analyse.
kind = 'lines'
heading = 'More workers (16 CPUs)'
load_text = 'N = 32 client threads in 8 processes, values of 64 bytes, 10,000 keys, half GET, half PUT'
x_label = 'M, worker threads'
base_text = 'M = 1'
knob = 'workers'
x_is_series = 0
log_x = 1
runs = '5'
seconds = '0.3'
array series[3] = ['auto', 'worker', 'shared']
series_count = 3
array series_label[3] = ['lanes auto', 'lanes per worker', 'one shared queue']
series_label_count = 3
array value[5] = ['1', '2', '4', '8', '16']
value_count = 5
array value_label[5] = ['1', '2', '4', '8', '16']
value_label_count = 5
array tic_label[5] = ['1', '2', '4', '8', '16']
tic_label_count = 5
array bar_label[3] = ['lanes auto', 'lanes per worker', 'one shared queue']
bar_label_count = 3
theory_label = ''
array published[1] = ['']
published_count = 0
array published_label[1] = ['']
published_label_count = 0
array group[1] = ['']
group_count = 1
array series_group[3] = [1, 1, 1]
array series_style[3] = [1, 2, 3]
array published_group[1] = [0]
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, requests/s', 'throughput, ratio to M = 1', 'mean response time, µs (thin: 99th percentile)', 'mean response time, ratio to M = 1']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.5, 10, 0.1]
array panel_high[4] = [1.21849e+06, 9.18101, 2786.77, 1.85736]
array panel_tics[4] = ['"0" 0, "200k" 200000, "400k" 400000, "600k" 600000, "800k" 800000, "1M" 1e+06, "1.2M" 1.2e+06', '"0.5" 0.5, "1" 1, "2" 2, "5" 5', '"10" 10, "20" 20, "50" 50, "100" 100, "200" 200, "500" 500, "1000" 1000, "2000" 2000', '"0.1" 0.1, "0.2" 0.2, "0.5" 0.5, "1" 1']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 200000, "" 400000, "" 600000, "" 800000, "" 1e+06, "" 1.2e+06', '"" 0.5, "" 1, "" 2, "" 5', '"" 10, "" 20, "" 50, "" 100, "" 200, "" 500, "" 1000, "" 2000', '"" 0.1, "" 0.2, "" 0.5, "" 1']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 1]
