# What plots/panels.gp draws of scale-window; written by experiments/analyse.
kind = 'lines'
heading = 'More messages in flight'
load_text = 'Values of 64 bytes, 10,000 keys, half GET, half PUT, pipelines'
x_label = 'W, messages in flight'
base_text = 'W = 1'
knob = 'window'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '0.5'
array series[2] = ['one', 'five']
series_count = 2
array series_label[2] = ['1 client', '5 clients']
series_label_count = 2
array value[4] = ['1', '2', '3', '4']
value_count = 4
array value_label[4] = ['1', '2', '3', '4']
value_label_count = 4
array tic_label[4] = ['1', '2', '3', '4']
tic_label_count = 4
array bar_label[2] = ['1 client', '5 clients']
bar_label_count = 2
array published[1] = ['']
published_count = 0
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, 1,000 requests/s', 'throughput, ratio to W = 1', 'mean response time, µs (thin: 99th percentile)', 'mean response time, ratio to W = 1']
panel_label_count = 4
array panel_scale[4] = [0.001, 1, 1, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.2, 5, 0.5]
array panel_high[4] = [358.535, 2.9578, 2700.08, 8.18572]
array panel_ratio[4] = [0, 1, 0, 1]
