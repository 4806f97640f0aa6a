# What plots/panels.gp draws of wait-load; written by experiments/analyse.
kind = 'lines'
heading = 'The wait rule over offered load'
load_text = 'Open loop, 5 client threads, values of 64 bytes, 10,000 keys, half GET, half PUT, both sides alike'
x_label = 'operations/s offered'
base_text = 'operations/s offered = 1000'
knob = 'rate_per_s'
x_is_series = 0
log_x = 0
runs = '3'
seconds = '0.5'
array series[3] = ['off', 'fixed', 'auto']
series_count = 3
array series_label[3] = ['sleep at once', 'poll for 50 µs', 'the wait rule']
series_label_count = 3
array value[6] = ['1000', '5000', '20000', '50000', '100000', '200000']
value_count = 6
array value_label[6] = ['1000', '5000', '20000', '50000', '100000', '200000']
value_label_count = 6
array tic_label[6] = ['1000', '5000', '20000', '50000', '100000', '200000']
tic_label_count = 6
array bar_label[3] = ['sleep at once', 'poll for 50 µs', 'the wait rule']
bar_label_count = 3
array published[1] = ['']
published_count = 0
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, 1,000 requests/s', 'throughput, ratio to operations/s offered = 1000', 'mean response time, ms (thin: 99th percentile)', 'mean response time, ratio to operations/s offered = 1000']
panel_label_count = 4
array panel_scale[4] = [0.001, 1, 0.001, 1]
array panel_log[4] = [0, 0, 1, 0]
array panel_low[4] = [0, 0, 0.02, 0]
array panel_high[4] = [147.445, 147.17, 1905.89, 4899.43]
array panel_ratio[4] = [0, 1, 0, 1]
