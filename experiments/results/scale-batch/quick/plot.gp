# What plots/panels.gp draws of scale-batch; written by experiments/analyse.
kind = 'lines'
heading = 'More operations a message'
load_text = 'Values of 64 bytes, 100,000 keys, half GET, half PUT'
x_label = 'B, operations a message'
base_text = 'B = 1'
knob = 'batch'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '0.5'
array series[2] = ['one', 'five']
series_count = 2
array series_label[2] = ['1 client', '5 clients']
series_label_count = 2
array value[8] = ['1', '2', '4', '8', '16', '32', '64', '128']
value_count = 8
array value_label[8] = ['1', '2', '4', '8', '16', '32', '64', '128']
value_label_count = 8
array tic_label[8] = ['1', '2', '4', '8', '16', '32', '64', '128']
tic_label_count = 8
array bar_label[2] = ['1 client', '5 clients']
bar_label_count = 2
array published[1] = ['']
published_count = 0
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, 1,000 requests/s', 'throughput, ratio to B = 1', 'mean response time, µs (thin: 99th percentile)', 'mean response time, ratio to B = 1']
panel_label_count = 4
array panel_scale[4] = [0.001, 1, 1, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.5, 2, 0.5]
array panel_high[4] = [1589.59, 16.1914, 9437.18, 43.9216]
array panel_ratio[4] = [0, 1, 0, 1]
