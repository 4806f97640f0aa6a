# What plots/panels.gp draws of knee; written by experiments/analyse.
kind = 'lines'
heading = 'Where is the knee?'
load_text = 'S = 1 ms asleep, exponential; open loop, evenly spaced, over 48 clients in 6 processes; D = 10 data files, 50 % PUT'
load_lines = 1
x_label = 'λ, offered load, operations/s'
base_text = 'λ = 100'
knob = 'rate'
x_is_series = 0
log_x = 1
runs = '3'
seconds = '5'
array series[4] = ['m1', 'm2', 'm4', 'locked']
series_count = 4
array series_label[4] = ['M = 1', 'M = 2', 'M = 4', 'M = 4, D = 1, lock held']
series_label_count = 4
array value[9] = ['100', '200', '400', '600', '800', '1200', '1600', '2400', '3200']
value_count = 9
array value_label[9] = ['100', '200', '400', '600', '800', '1200', '1600', '2400', '3200']
value_label_count = 9
array tic_label[9] = ['100', '200', '400', '600', '800', '1200', '1600', '2400', '3200']
tic_label_count = 9
array bar_label[4] = ['M = 1', 'M = 2', 'M = 4', 'M = 4, D = 1, lock held']
bar_label_count = 4
theory_label = 'thin, theory: D/M/c (approximation)'
array published[1] = ['']
published_count = 0
array published_label[1] = ['']
published_label_count = 0
array group[1] = ['']
group_count = 1
array series_group[4] = [1, 1, 1, 1]
array series_style[4] = [1, 2, 3, 4]
array published_group[1] = [0]
array panel_metric[3] = ['mean_us', 'p99_us', 'ops_per_s']
panel_metric_count = 3
array panel_second[3] = ['', '', '']
panel_second_count = 3
array panel_label[3] = ['mean response time, s', '99th percentile, s', 'throughput, requests/s']
panel_label_count = 3
array panel_scale[3] = [1e-06, 1e-06, 1]
array panel_log[3] = [1, 1, 0]
array panel_low[3] = [0.0005, 0.003, 0]
array panel_high[3] = [21.7324, 38.997, 3167.21]
array panel_tics[3] = ['"0.001" 0.001, "0.01" 0.01, "0.1" 0.1, "1" 1, "10" 10', '"0.01" 0.01, "0.1" 0.1, "1" 1, "10" 10', '"0" 0, "500" 500, "1000" 1000, "1500" 1500, "2000" 2000, "2500" 2500, "3000" 3000']
panel_tics_count = 3
array panel_grid[3] = ['"" 0.001, "" 0.01, "" 0.1, "" 1, "" 10', '"" 0.01, "" 0.1, "" 1, "" 10', '"" 0, "" 500, "" 1000, "" 1500, "" 2000, "" 2500, "" 3000']
panel_grid_count = 3
array panel_ratio[3] = [0, 0, 0]
array panel_published[3] = [0, 0, 0]
array series_published[4] = [0, 0, 0, 0]
