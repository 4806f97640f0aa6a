# What plots/panels.gp draws of cores-readers; written by experiments/analyse.
kind = 'lines'
heading = 'Readers without the daemon (16 CPUs)'
load_text = 'Direct reads (`clientk --direct map`) of values of 64 bytes, 100,000 keys, D = 4 data files'
x_label = 'N, readers'
base_text = 'N = 1'
knob = 'readers'
x_is_series = 0
log_x = 1
runs = '5'
seconds = '0.3'
array series[3] = ['threads', 'processes', 'writing']
series_count = 3
array series_label[3] = ['threads of one process', 'processes', 'processes, one operation in twenty is a PUT']
series_label_count = 3
array value[5] = ['1', '2', '4', '8', '16']
value_count = 5
array value_label[5] = ['1', '2', '4', '8', '16']
value_label_count = 5
array tic_label[5] = ['1', '2', '4', '8', '16']
tic_label_count = 5
array bar_label[3] = ['threads of one process', 'processes', 'processes, one operation in twenty is a PUT']
bar_label_count = 3
theory_label = ''
array published[1] = ['']
published_count = 0
array published_label[1] = ['']
published_label_count = 0
array group[1] = ['']
group_count = 1
array series_group[3] = [1, 1, 1]
array series_style[3] = [1, 2, 3]
array published_group[1] = [0]
array panel_metric[4] = ['ops_per_s', 'ops_per_s_ratio', 'p50_us', 'client_cpu_us_per_op']
panel_metric_count = 4
array panel_second[4] = ['', '', 'p99_us', '']
panel_second_count = 4
array panel_label[4] = ['throughput, requests/s', 'throughput, ratio to N = 1', 'median response time, µs (thin: 99th percentile)', 'CPU of the clients per operation, µs']
panel_label_count = 4
array panel_scale[4] = [1, 1, 1, 1]
array panel_log[4] = [1, 1, 1, 0]
array panel_low[4] = [500000, 0.5, 0.2, 0]
array panel_high[4] = [7.43997e+07, 44.4699, 44.9306, 1.27218]
array panel_tics[4] = ['"500k" 500000, "1M" 1e+06, "2M" 2e+06, "5M" 5e+06, "10M" 1e+07, "20M" 2e+07, "50M" 5e+07', '"0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10, "20" 20', '"0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10, "20" 20', '"0" 0, "0.2" 0.2, "0.4" 0.4, "0.6" 0.6, "0.8" 0.8, "1" 1, "1.2" 1.2']
panel_tics_count = 4
array panel_grid[4] = ['"" 500000, "" 1e+06, "" 2e+06, "" 5e+06, "" 1e+07, "" 2e+07, "" 5e+07', '"" 0.5, "" 1, "" 2, "" 5, "" 10, "" 20', '"" 0.2, "" 0.5, "" 1, "" 2, "" 5, "" 10, "" 20', '"" 0, "" 0.2, "" 0.4, "" 0.6, "" 0.8, "" 1, "" 1.2']
panel_grid_count = 4
array panel_ratio[4] = [0, 1, 0, 0]
