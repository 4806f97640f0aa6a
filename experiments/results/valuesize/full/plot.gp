# What plots/panels.gp draws of valuesize; written by experiments/analyse.
kind = 'lines'
heading = 'What does the size of a value cost?'
load_text = 'N = 5 client threads, M = 3 workers, D = 3 data files, 40 % PUT, 50 % GET, 10 % DEL'
x_label = 'L, size of a value, bytes'
base_text = 'L = 32'
knob = 'value_bytes'
x_is_series = 0
log_x = 1
runs = '5 to 6'
seconds = '10'
array series[1] = ['shared']
series_count = 1
array series_label[1] = ['one shared request queue (as published)']
series_label_count = 1
array value[8] = ['32', '64', '128', '256', '512', '2048', '8192', '65536']
value_count = 8
array value_label[8] = ['32', '64', '128', '256', '512', '2048', '8192', '65536']
value_label_count = 8
array tic_label[8] = ['32', '64', '128', '256', '512', '2Ki', '8Ki', '64Ki']
tic_label_count = 8
array bar_label[1] = ['one shared request queue (as published)']
bar_label_count = 1
theory_label = ''
array published[1] = ['shared']
published_count = 1
array published_label[1] = ['one shared request queue (as published)']
published_label_count = 1
array group[1] = ['']
group_count = 1
array series_group[1] = [1]
array series_style[1] = [1]
array published_group[1] = [1]
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, requests/s', 'throughput, ratio to L = 32', 'mean response time, µs (thin: 99th percentile)', 'mean response time, ratio to L = 32']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.1, 20, 0.5]
array panel_high[4] = [111007, 1.7954, 10344.1, 9.46867]
array panel_tics[4] = ['"0" 0, "20k" 20000, "40k" 40000, "60k" 60000, "80k" 80000, "100k" 100000', '"0.1" 0.1, "0.2" 0.2, "0.5" 0.5, "1" 1', '"20" 20, "50" 50, "100" 100, "200" 200, "500" 500, "1000" 1000, "2000" 2000, "5000" 5000, "10k" 10000', '"0.5" 0.5, "1" 1, "2" 2, "5" 5']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 20000, "" 40000, "" 60000, "" 80000, "" 100000', '"" 0.1, "" 0.2, "" 0.5, "" 1', '"" 20, "" 50, "" 100, "" 200, "" 500, "" 1000, "" 2000, "" 5000, "" 10000', '"" 0.5, "" 1, "" 2, "" 5']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 1]
