"""The judge: mqkv beside its peers, in alternation in one run (`make bench`).

Standard library only, on top of the experiment harness. The modules, from what is measured to what
is written:
  systems     the servers that are compared: how each is started, loaded, filled, crashed
  cases       the works: what is measured of whom, and the goals
  rows        one row a run: its columns, and the runs of a profile in their order
  plan        what a run will take: time, disk, memory
  loads       throughput and latency under a load
  busy        the same works beside programs that take the CPUs
  offered     latency at shares of what each system reaches
  rates       latency at a load that is the same for all
  population  many keys: filling, memory, starting again
  idle        what connected clients cost that ask for nothing
  stalls      latency of writes while the index grows and while compaction runs
  engines     the engines alone, in process
  transfers   transactions: money between accounts
  verdicts    medians, ratios, goals met or not
  costs       where the time goes: CPU time of server and client, beside the peers and the echo
  bounds      what bounds a goal that is not met: the kernel's queues or mqkv's own work
  provenance  when and from which commit each work was measured
  table       what a person sees on the terminal
  microbench  the rows of experiments/microbench, instructions of each layer's calls
  scaling     the scaling studies, as sections of docs/PERFORMANCE-TABLES.md
  page        docs/PERFORMANCE-TABLES.md
"""
