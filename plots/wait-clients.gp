# The wait rule over clients See sweep.gp.
heading = "The wait rule over clients"
load_text = "closed loop, values of 64 bytes, half GET, half PUT, both sides alike"
symbol = "N"
knob_label = "N, client threads"
wide_range = 1
load plots."/sweep.gp"
