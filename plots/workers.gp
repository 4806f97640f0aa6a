# Study 1: how many worker threads? See sweep.gp.
heading = "How many worker threads?"
load_text = "N = 5 client threads, D = 3 data files, L = 64 bytes, 40 % PUT, 50 % GET, 10 % DEL"
symbol = "M"
knob_label = "M, worker threads"
load plots."/sweep.gp"
