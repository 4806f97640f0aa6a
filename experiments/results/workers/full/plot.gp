# What plots/panels.gp draws of workers; written by experiments/analyse.
kind = 'lines'
heading = 'How many worker threads?'
load_text = 'N = 5 client threads, D = 3 data files, L = 64 bytes, 40 % PUT, 50 % GET, 10 % DEL'
x_label = 'M, worker threads'
base_text = 'M = 1'
knob = 'workers'
x_is_series = 0
log_x = 0
runs = '6'
seconds = '10'
array series[2] = ['shared', 'auto']
series_count = 2
array series_label[2] = ['one shared request queue (as published)', 'mqkv''s default (lanes auto)']
series_label_count = 2
array value[5] = ['1', '2', '3', '4', '5']
value_count = 5
array value_label[5] = ['1', '2', '3', '4', '5']
value_label_count = 5
array tic_label[5] = ['1', '2', '3', '4', '5']
tic_label_count = 5
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
array panel_low[4] = [0, 0, 10, 0]
array panel_high[4] = [324297, 1.908, 830.188, 3.81469]
array panel_tics[4] = ['"0" 0, "50k" 50000, "100k" 100000, "150k" 150000, "200k" 200000, "250k" 250000, "300k" 300000', '"0" 0, "0.25" 0.25, "0.5" 0.5, "0.75" 0.75, "1" 1, "1.25" 1.25, "1.5" 1.5, "1.75" 1.75', '"10" 10, "20" 20, "50" 50, "100" 100, "200" 200, "500" 500', '"0" 0, "0.5" 0.5, "1" 1, "1.5" 1.5, "2" 2, "2.5" 2.5, "3" 3, "3.5" 3.5']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 50000, "" 100000, "" 150000, "" 200000, "" 250000, "" 300000', '"" 0, "" 0.25, "" 0.5, "" 0.75, "" 1, "" 1.25, "" 1.5, "" 1.75', '"" 10, "" 20, "" 50, "" 100, "" 200, "" 500', '"" 0, "" 0.5, "" 1, "" 1.5, "" 2, "" 2.5, "" 3, "" 3.5']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 1]
