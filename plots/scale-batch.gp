# More operations a message See sweep.gp.
heading = "More operations a message"
load_text = "values of 64 bytes, 100,000 keys, half GET, half PUT"
symbol = "B"
knob_label = "B, operations a message"
wide_range = 1
load plots."/sweep.gp"
