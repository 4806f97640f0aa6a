# What plots/panels.gp draws of workers; written by experiments/analyse.
kind = 'lines'
heading = 'How many worker threads? (16 CPUs)'
load_text = 'N = 5 client threads, D = 3 data files, L = 64 bytes, 40 % PUT, 50 % GET, 10 % DEL'
x_label = 'M, worker threads'
base_text = 'M = 1'
knob = 'workers'
x_is_series = 0
log_x = 0
runs = '5'
seconds = '0.3'
array series[2] = ['shared', 'auto']
series_count = 2
array series_label[2] = ['one shared request queue (as published)', 'mqkv''s default (lanes auto)']
series_label_count = 2
array value[6] = ['1', '2', '3', '4', '5', '8']
value_count = 6
array value_label[6] = ['1', '2', '3', '4', '5', '8']
value_label_count = 6
array tic_label[6] = ['1', '2', '3', '4', '5', '8']
tic_label_count = 6
array bar_label[2] = ['one shared request queue (as published)', 'mqkv''s default (lanes auto)']
bar_label_count = 2
theory_label = ''
array published[1] = ['shared']
published_count = 1
array published_label[1] = ['one shared request queue (as published)']
published_label_count = 1
array group[1] = ['']
group_count = 1
array series_group[2] = [1, 1]
array series_style[2] = [1, 2]
array published_group[1] = [1]
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, requests/s', 'throughput, ratio to M = 1', 'mean response time, µs (thin: 99th percentile)', 'mean response time, ratio to M = 1']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [0, 0, 1, 0]
array panel_low[4] = [0, 0, 5, 0]
array panel_high[4] = [703720, 1.93014, 210.862, 1.18757]
array panel_tics[4] = ['"0" 0, "100k" 100000, "200k" 200000, "300k" 300000, "400k" 400000, "500k" 500000, "600k" 600000, "700k" 700000', '"0" 0, "0.25" 0.25, "0.5" 0.5, "0.75" 0.75, "1" 1, "1.25" 1.25, "1.5" 1.5, "1.75" 1.75', '"5" 5, "10" 10, "20" 20, "50" 50, "100" 100, "200" 200', '"0" 0, "0.2" 0.2, "0.4" 0.4, "0.6" 0.6, "0.8" 0.8, "1" 1']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 100000, "" 200000, "" 300000, "" 400000, "" 500000, "" 600000, "" 700000', '"" 0, "" 0.25, "" 0.5, "" 0.75, "" 1, "" 1.25, "" 1.5, "" 1.75', '"" 5, "" 10, "" 20, "" 50, "" 100, "" 200', '"" 0, "" 0.2, "" 0.4, "" 0.6, "" 0.8, "" 1']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 1]
