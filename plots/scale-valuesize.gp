# Larger values See sweep.gp.
heading = "Larger values"
load_text = "1 client thread, 1,000 keys"
symbol = "L"
knob_label = "L, size of a value, bytes"
wide_range = 1
load plots."/sweep.gp"
