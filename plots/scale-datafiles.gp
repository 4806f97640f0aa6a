# More data files See sweep.gp.
heading = "More data files"
load_text = "N = 5 client threads, M = 2 workers, values of 64 bytes, half GET, half PUT"
symbol = "D"
knob_label = "D, data files"
wide_range = 1
load plots."/sweep.gp"
