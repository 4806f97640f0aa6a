# What plots/panels.gp draws of scale-keys; written by experiments/analyse.
kind = 'lines'
heading = 'More keys'
load_text = 'N = 5 client threads, 16 operations per message, values of 64 bytes'
x_label = 'K, keys'
base_text = 'K = 10000'
knob = 'keys'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '2'
array series[2] = ['get', 'mix']
series_count = 2
array series_label[2] = ['GET only', 'half PUT']
series_label_count = 2
array value[5] = ['10000', '100000', '1000000', '10000000', '50000000']
value_count = 5
array value_label[5] = ['10000', '100000', '1000000', '10000000', '50000000']
value_label_count = 5
array tic_label[5] = ['10k', '100k', '1M', '10M', '50M']
tic_label_count = 5
array bar_label[2] = ['GET only', 'half PUT']
bar_label_count = 2
theory_label = ''
array published[1] = ['']
published_count = 0
array published_label[1] = ['']
published_label_count = 0
array group[1] = ['']
group_count = 1
array series_group[2] = [1, 1]
array series_style[2] = [1, 2]
array published_group[1] = [0]
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, operations/s', 'throughput, ratio to K = 10000', 'mean response time of a message, µs (thin: 99th percentile)', 'mean response time of a message, ratio to K = 10000']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.1, 10, 0.2]
array panel_high[4] = [3.78933e+06, 4.88952, 2048.5, 8.54968]
array panel_tics[4] = ['"0" 0, "500k" 500000, "1M" 1e+06, "1.5M" 1.5e+06, "2M" 2e+06, "2.5M" 2.5e+06, "3M" 3e+06, "3.5M" 3.5e+06', '"0.1" 0.1, "0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2', '"10" 10, "20" 20, "50" 50, "100" 100, "200" 200, "500" 500, "1000" 1000, "2000" 2000', '"0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2, "5" 5']
panel_tics_count = 4
array panel_grid[4] = ['"" 0, "" 500000, "" 1e+06, "" 1.5e+06, "" 2e+06, "" 2.5e+06, "" 3e+06, "" 3.5e+06', '"" 0.1, "" 0.2, "" 0.5, "" 1, "" 2', '"" 10, "" 20, "" 50, "" 100, "" 200, "" 500, "" 1000, "" 2000', '"" 0.2, "" 0.5, "" 1, "" 2, "" 5']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 1]
