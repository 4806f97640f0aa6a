# More messages in flight See sweep.gp.
heading = "More messages in flight"
load_text = "values of 64 bytes, 10,000 keys, half GET, half PUT, pipelines"
symbol = "W"
knob_label = "W, messages in flight"
wide_range = 1
load plots."/sweep.gp"
