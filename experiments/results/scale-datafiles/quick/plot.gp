# What plots/panels.gp draws of scale-datafiles; written by experiments/analyse.
kind = 'lines'
heading = 'More data files'
load_text = 'N = 5 client threads, M = 2 workers, values of 64 bytes, 100,000 keys, half GET, half PUT'
x_label = 'D, data files'
base_text = 'D = 1'
knob = 'datafiles'
x_is_series = 0
log_x = 1
runs = '5'
seconds = '0.5'
array series[1] = ['mqkv']
series_count = 1
array series_label[1] = ['mqkv']
series_label_count = 1
array value[5] = ['1', '2', '4', '16', '64']
value_count = 5
array value_label[5] = ['1', '2', '4', '16', '64']
value_label_count = 5
array tic_label[5] = ['1', '2', '4', '16', '64']
tic_label_count = 5
array bar_label[1] = ['mqkv']
bar_label_count = 1
theory_label = ''
array published[1] = ['']
published_count = 0
array published_label[1] = ['']
published_label_count = 0
array group[1] = ['']
group_count = 1
array series_group[1] = [1]
array series_style[1] = [1]
array published_group[1] = [0]
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, requests/s', 'throughput, ratio to D = 1', 'mean response time, µs (thin: 99th percentile)', 'mean response time, ratio to D = 1']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.5, 20, 0.5]
array panel_high[4] = [185066, 1.91624, 453.329, 2.22187]
array panel_tics[4] = ['"0" 0, "25k" 25000, "50k" 50000, "75k" 75000, "100k" 100000, "125k" 125000, "150k" 150000, "175k" 175000', '"0.5" 0.5, "0.7" 0.7, "1" 1, "1.5" 1.5', '"20" 20, "50" 50, "100" 100, "200" 200', '"0.5" 0.5, "0.7" 0.7, "1" 1, "1.5" 1.5, "2" 2']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 25000, "" 50000, "" 75000, "" 100000, "" 125000, "" 150000, "" 175000', '"" 0.5, "" 0.7, "" 1, "" 1.5', '"" 20, "" 50, "" 100, "" 200', '"" 0.5, "" 0.7, "" 1, "" 1.5, "" 2']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 1]
