# What plots/panels.gp draws of scale-datafiles; written by experiments/analyse.
kind = 'lines'
heading = 'More data files (16 CPUs)'
load_text = 'N = 32 client threads in 8 processes, M = 12 workers, values of 64 bytes, 100,000 keys, half GET, half PUT'
x_label = 'D, data files'
base_text = 'D = 1'
knob = 'datafiles'
x_is_series = 0
log_x = 1
runs = '5'
seconds = '0.3'
array series[1] = ['mqkv']
series_count = 1
array series_label[1] = ['mqkv']
series_label_count = 1
array value[4] = ['1', '4', '16', '64']
value_count = 4
array value_label[4] = ['1', '4', '16', '64']
value_label_count = 4
array tic_label[4] = ['1', '4', '16', '64']
tic_label_count = 4
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
array panel_low[4] = [0, 0.5, 10, 0.05]
array panel_high[4] = [1.48472e+06, 11.8236, 4000.52, 1.6]
array panel_tics[4] = ['"0" 0, "200k" 200000, "400k" 400000, "600k" 600000, "800k" 800000, "1M" 1e+06, "1.2M" 1.2e+06, "1.4M" 1.4e+06', '"0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10', '"10" 10, "20" 20, "50" 50, "100" 100, "200" 200, "500" 500, "1000" 1000, "2000" 2000', '"0.05" 0.05, "0.1" 0.1, "0.2" 0.2, "0.5" 0.5, "1" 1']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 200000, "" 400000, "" 600000, "" 800000, "" 1e+06, "" 1.2e+06, "" 1.4e+06', '"" 0.5, "" 1, "" 2, "" 5, "" 10', '"" 10, "" 20, "" 50, "" 100, "" 200, "" 500, "" 1000, "" 2000', '"" 0.05, "" 0.1, "" 0.2, "" 0.5, "" 1']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 1]
