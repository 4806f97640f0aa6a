# What plots/panels.gp draws of scale-valuesize; written by experiments/analyse.
kind = 'lines'
heading = 'Larger values'
load_text = '1,000 keys'
x_label = 'L, size of a value, bytes'
base_text = 'L = 16'
knob = 'value_bytes'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '0.5'
array series[2] = ['get', 'put']
series_count = 2
array series_label[2] = ['GET, 1 client', 'PUT, 1 client']
series_label_count = 2
array value[9] = ['16', '64', '256', '1024', '4096', '16384', '65536', '262144', '1048576']
value_count = 9
array value_label[9] = ['16', '64', '256', '1024', '4096', '16384', '65536', '262144', '1048576']
value_label_count = 9
array tic_label[9] = ['16', '64', '256', '1024', '4096', '16384', '65536', '262144', '1048576']
tic_label_count = 9
array bar_label[2] = ['GET, 1 client', 'PUT, 1 client']
bar_label_count = 2
array published[1] = ['']
published_count = 0
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, 1,000 requests/s', 'throughput, ratio to L = 16', 'mean response time, ms (thin: 99th percentile)', 'mean response time, ratio to L = 16']
panel_label_count = 4
array panel_scale[4] = [0.001, 1, 0.001, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.0005, 0.002, 0.5]
array panel_high[4] = [203.64, 1.99782, 61.9975, 1214.37]
array panel_ratio[4] = [0, 1, 0, 1]
