# More keys See sweep.gp.
heading = "More keys"
load_text = "N = 5 client threads, 16 operations a message, values of 64 bytes"
symbol = "K"
knob_label = "K, keys"
wide_range = 1
load plots."/sweep.gp"
