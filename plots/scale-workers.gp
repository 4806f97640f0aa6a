# More worker threads on two CPUs See sweep.gp.
heading = "More worker threads on two CPUs"
load_text = "N = 5 client threads, values of 64 bytes, half GET, half PUT"
symbol = "M"
knob_label = "M, worker threads"
wide_range = 1
load plots."/sweep.gp"
