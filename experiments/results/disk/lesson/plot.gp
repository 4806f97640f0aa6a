# What plots/panels.gp draws of disk; written by experiments/analyse.
kind = 'lines'
heading = 'Do more workers help where requests wait for a real disk?'
load_text = 'N = 6 clients, each a process; 2,000 keys, L = 4 KiB, GET only; D = 10 data files'
x_label = 'M, workers'
base_text = 'M = 1'
knob = 'workers'
x_is_series = 0
log_x = 0
runs = '4'
seconds = '0.8'
array series[3] = ['cache', 'disk', 'sleep']
series_count = 3
array series_label[3] = ['page cache', 'disk', 'page cache and a sleep']
series_label_count = 3
array value[4] = ['1', '2', '3', '5']
value_count = 4
array value_label[4] = ['1', '2', '3', '5']
value_label_count = 4
array tic_label[4] = ['1', '2', '3', '5']
tic_label_count = 4
array bar_label[3] = ['page cache', 'disk', 'page cache and a sleep']
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
array panel_metric[2] = ['ops_per_s', 'ops_per_s_ratio']
panel_metric_count = 2
array panel_second[2] = ['', '']
panel_second_count = 2
array panel_label[2] = ['throughput, requests/s', 'throughput, ratio to M = 1']
panel_label_count = 2
array panel_scale[2] = [1, 1]
array panel_log[2] = [1, 0]
array panel_low[2] = [1000, 0]
array panel_high[2] = [189701, 5.29396]
array panel_tics[2] = ['"1000" 1000, "2000" 2000, "5000" 5000, "10k" 10000, "20k" 20000, "50k" 50000, "100k" 100000', '"0" 0, "1" 1, "2" 2, "3" 3, "4" 4, "5" 5']
panel_tics_count = 2
array panel_grid[2] = ['"" 1000, "" 2000, "" 5000, "" 10000, "" 20000, "" 50000, "" 100000', '"" 0, "" 1, "" 2, "" 3, "" 4, "" 5']
panel_grid_count = 2
array panel_ratio[2] = [0, 1]
