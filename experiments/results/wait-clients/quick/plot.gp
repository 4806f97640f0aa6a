# What plots/panels.gp draws of wait-clients; written by experiments/analyse.
kind = 'lines'
heading = 'The wait rule over clients'
load_text = 'Closed loop, values of 64 bytes, 10,000 keys, half GET, half PUT, both sides alike'
x_label = 'N, client threads'
base_text = 'N = 1'
knob = 'clients'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '0.5'
array series[3] = ['off', 'fixed', 'auto']
series_count = 3
array series_label[3] = ['sleep at once', 'poll for 50 µs', 'the wait rule']
series_label_count = 3
array value[7] = ['1', '2', '5', '10', '20', '50', '100']
value_count = 7
array value_label[7] = ['1', '2', '5', '10', '20', '50', '100']
value_label_count = 7
array tic_label[7] = ['1', '2', '5', '10', '20', '50', '100']
tic_label_count = 7
array bar_label[3] = ['sleep at once', 'poll for 50 µs', 'the wait rule']
bar_label_count = 3
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
array panel_low[4] = [0, 0.1, 0.002, 0.2]
array panel_high[4] = [311.146, 28.3813, 22.0201, 722.696]
array panel_ratio[4] = [0, 1, 0, 1]
