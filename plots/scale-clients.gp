# More client threads See sweep.gp.
heading = "More client threads"
load_text = "values of 64 bytes, 10,000 keys, half GET, half PUT"
symbol = "N"
knob_label = "N, client threads"
wide_range = 1
load plots."/sweep.gp"
