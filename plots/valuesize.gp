# Study 2: what does the size of a value cost? See sweep.gp.
heading = "What does the size of a value cost?"
load_text = "N = 5 client threads, M = 3 workers, D = 3 data files, 40 % PUT, 50 % GET, 10 % DEL"
symbol = "L"
knob_label = "L, size of a value, bytes"
wide_range = 1
load plots."/sweep.gp"
