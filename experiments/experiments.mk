# Experiments: see experiments/README.md.

#? make experiments   run the studies. PROFILE=quick (default: a minute each), course (runs of 5 s) or full
#?                    (the published minute a point); lesson is of lessons/ only. STUDIES="NAME..." for
#?                    some, --all for all that have the profile: lesson takes 20 minutes, course two
#?                    hours, cores (for eight CPUs and more) one
#? make bench         mqkv beside Redis, memcached, LMDB, RocksDB, LevelDB, SQLite, diskcache and a bare echo: which goals are
#?                    met, in about an hour; PROFILE=full: the same, each run longer (1.5 hours);
#?                    CASES="get-* engines" for some works only; CLUSTER=1: then bench-cluster, too
#? make bench-cluster serverk --engine nats beside the plain NATS client and etcd, each on one and on three
#?                    servers (NATS_SERVER=PROGRAM), in some minutes
#? make microbench    instructions and CPU time of each layer's calls; KEEP=1 writes the rows that
#?                    docs/PERFORMANCE-TABLES.md shows
#? make scaling       throughput and latency over clients, workers, data files, batch, window, sizes, keys,
#?                    offered load
#? make plots         draw the pictures again, from the summary CSV alone
#? make check-claims  the studies measured again, beside the committed rows (experiments/check-claims), in an hour;
#?                    STUDIES="NAME..." for some
#? make report        one self-contained HTML page of all results: experiments/results/report.html
#? make demo          everything at a glance, on real data, in less than five minutes

STUDIES ?= $(patsubst experiments/%/study.conf,%,$(wildcard experiments/*/study.conf))
PROFILE ?= quick

# Load programs that `clientk bench` is no substitute for: experiments/<study>/<name>_load.c, on the store
# alone or on the client library.
STUDY_SRC := $(filter-out experiments/peers/%,$(wildcard experiments/*/*_load.c))
STUDY_PROGRAMS := $(addprefix $(OUT)/experiments/,$(basename $(notdir $(STUDY_SRC))))

define study_program_rule
$(OUT)/experiments/$(basename $(notdir $(1))): $(OUT)/obj/$(1:.c=.o) $(OUT)/libclientk.a $(OUT)/libkvstore.a
	@mkdir -p $$(@D)
	$$(CC) $$(BASE_LDFLAGS) $$(LDFLAGS) -o $$@ $$^ -lxxhash -lm
endef
$(foreach source,$(STUDY_SRC),$(eval $(call study_program_rule,$(source))))

.PHONY: experiments check-claims plots report demo
experiments:
	@tests/deps || true # it has said what is missing; perhaps not for this
	@$(MAKE) --no-print-directory -s $(PARALLEL) $(OUT)/serverk $(OUT)/clientk $(STUDY_PROGRAMS)
	@experiments/run --build $(OUT) --profile $(PROFILE) $(STUDIES)

CHECKED := $(if $(filter file,$(origin STUDIES)),,$(STUDIES)) # all, unless somebody says which
check-claims:
	@tests/deps || true
	@$(MAKE) --no-print-directory -s $(PARALLEL) $(OUT)/serverk $(OUT)/clientk $(STUDY_PROGRAMS)
	@experiments/check-claims --build $(OUT) $(CHECKED)

plots:
	@plots/draw

report:
	@experiments/report

demo:
	@demo/run

# The judge: mqkv beside other servers and engines. CASES="PATTERN..." for some works only.
include experiments/peers/peers.mk

# Pieces of each layer, counted: KEEP=1 keeps the rows.
.PHONY: microbench
microbench:
	@tests/deps
	@$(MAKE) --no-print-directory -s $(PARALLEL) $(OUT)/tests/microbench
	@experiments/microbench --build $(OUT) $(if $(KEEP),--keep)

.PHONY: bench bench-programs scaling
bench:
	@tests/deps bench
	@$(MAKE) --no-print-directory -s $(PARALLEL) bench-programs
	@experiments/bench --build $(OUT) --profile $(PROFILE) $(CASES)
	@$(if $(CLUSTER),$(MAKE) --no-print-directory -s bench-cluster)

# serverk with the engine nats beside the plain NATS client.
.PHONY: bench-cluster
bench-cluster:
	@tests/deps bench-cluster
	@$(MAKE) --no-print-directory -s $(PARALLEL) $(PROGRAMS) $(OUT)/peers/peer_nats $(OUT)/peers/peer_etcd
	@experiments/cluster --build $(OUT)

bench-programs: $(PROGRAMS) $(PEER_PROGRAMS) $(PYTHON_IF_THERE)

scaling: $(OUT)/serverk $(OUT)/clientk
	@experiments/run --build $(OUT) --profile $(PROFILE) $(wildcard experiments/scaling/*)
