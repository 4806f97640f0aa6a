# What plots/panels.gp draws of service-valuesize; written by experiments/analyse.
kind = 'lines'
heading = 'Up to which service time does the size of a value matter?'
load_text = 'M = 3 workers, N = 5 client threads, D = 3 data files, 50 % PUT, 50 % GET'
load_lines = 1
x_label = 'S, service time added to each operation (asleep)'
base_text = 'L = 32'
knob = 'service_us'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '5'
array series[4] = ['l32', 'l512', 'l64k', 'l1m']
series_count = 4
array series_label[4] = ['L = 32', 'L = 512', 'L = 64 KiB', 'L = 1 MiB']
series_label_count = 4
array value[5] = ['1', '10', '100', '1000', '20000']
value_count = 5
array value_label[5] = ['0', '10 µs', '100 µs', '1 ms', '20 ms']
value_label_count = 5
array tic_label[5] = ['0', '10 µs', '100 µs', '1 ms', '20 ms']
tic_label_count = 5
array bar_label[4] = ['L = 32', 'L = 512', 'L = 64 KiB', 'L = 1 MiB']
bar_label_count = 4
theory_label = ''
array published[2] = ['l32', 'l512']
published_count = 2
array published_label[2] = ['L = 32', 'L = 512']
published_label_count = 2
array group[1] = ['']
group_count = 1
array series_group[4] = [1, 1, 1, 1]
array series_style[4] = [1, 2, 3, 4]
array published_group[2] = [1, 1]
array panel_metric[1] = ['mean_us_ratio']
panel_metric_count = 1
array panel_second[1] = ['']
panel_second_count = 1
array panel_label[1] = ['mean response time, ratio to L = 32']
panel_label_count = 1
array panel_scale[1] = [1]
array panel_log[1] = [1]
array panel_low[1] = [0.5]
array panel_high[1] = [181.713]
array panel_tics[1] = ['"0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10, "20" 20, "50" 50, "100" 100']
panel_tics_count = 1
array panel_grid[1] = ['"" 0.5, "" 1, "" 2, "" 5, "" 10, "" 20, "" 50, "" 100']
panel_grid_count = 1
array panel_ratio[1] = [1]
array panel_published[1] = [0]
array series_published[4] = [1, 1, 0, 0]
