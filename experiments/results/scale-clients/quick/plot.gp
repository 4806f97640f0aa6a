# What plots/panels.gp draws of scale-clients; written by experiments/analyse.
kind = 'lines'
heading = 'More clients'
load_text = 'Values of 64 bytes, 10,000 keys, half GET, half PUT'
x_label = 'N, client threads'
base_text = 'N = 1'
knob = 'clients'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '0.5'
array series[2] = ['threads', 'wide']
series_count = 2
array series_label[2] = ['threads of one process', 'threads, 16 operations a message']
series_label_count = 2
array value[9] = ['1', '2', '3', '5', '8', '10', '20', '50', '100']
value_count = 9
array value_label[9] = ['1', '2', '3', '5', '8', '10', '20', '50', '100']
value_label_count = 9
array tic_label[9] = ['1', '2', '3', '5', '8', '10', '20', '50', '100']
tic_label_count = 9
array bar_label[2] = ['threads of one process', 'threads, 16 operations a message']
bar_label_count = 2
array published[1] = ['']
published_count = 0
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'mean_us', 'mean_us_ratio']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, 1,000 requests/s', 'throughput, ratio to N = 1', 'mean response time, ms (thin: 99th percentile)', 'mean response time, ratio to N = 1']
panel_label_count = 4
array panel_scale[4] = [0.001, 1, 0.001, 1]
array panel_log[4] = [0, 1, 1, 1]
array panel_low[4] = [0, 0.2, 0.002, 0.5]
array panel_high[4] = [1308.64, 2.91717, 23.9075, 347.666]
array panel_ratio[4] = [0, 1, 0, 1]
