# What plots/panels.gp draws of service-workers; written by experiments/analyse.
kind = 'lines'
heading = 'From which service time on do more workers help?'
load_text = 'N = 5 client threads, D = 3 data files, L = 64 bytes, 40 % PUT, 50 % GET, 10 % DEL'
load_lines = 1
x_label = 'S, service time added to each operation (asleep)'
base_text = 'M = 1'
knob = 'service_us'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '5'
array series[4] = ['m1', 'm2', 'm3', 'm5']
series_count = 4
array series_label[4] = ['M = 1', 'M = 2', 'M = 3', 'M = 5']
series_label_count = 4
array value[5] = ['1', '10', '100', '1000', '20000']
value_count = 5
array value_label[5] = ['0', '10 µs', '100 µs', '1 ms', '20 ms']
value_label_count = 5
array tic_label[5] = ['0', '10 µs', '100 µs', '1 ms', '20 ms']
tic_label_count = 5
array bar_label[4] = ['M = 1', 'M = 2', 'M = 3', 'M = 5']
bar_label_count = 4
theory_label = 'thin, theory: M/M/c//N'
array published[4] = ['m1', 'm2', 'm3', 'm5']
published_count = 4
array published_label[4] = ['M = 1', 'M = 2', 'M = 3', 'M = 5']
published_label_count = 4
array group[1] = ['']
group_count = 1
array series_group[4] = [1, 1, 1, 1]
array series_style[4] = [1, 2, 3, 4]
array published_group[4] = [1, 1, 1, 1]
array panel_metric[1] = ['ops_per_s_ratio']
panel_metric_count = 1
array panel_second[1] = ['']
panel_second_count = 1
array panel_label[1] = ['throughput, ratio to M = 1']
panel_label_count = 1
array panel_scale[1] = [1]
array panel_log[1] = [1]
array panel_low[1] = [0.5]
array panel_high[1] = [12.6658]
array panel_tics[1] = ['"0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10']
panel_tics_count = 1
array panel_grid[1] = ['"" 0.5, "" 1, "" 2, "" 5, "" 10']
panel_grid_count = 1
array panel_ratio[1] = [1]
array panel_published[1] = [0]
array series_published[4] = [1, 1, 1, 1]
